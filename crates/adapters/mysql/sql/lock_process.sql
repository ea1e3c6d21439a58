SELECT GET_LOCK('clinch_{name}', 0)
