SELECT RELEASE_LOCK('clinch_{name}')
