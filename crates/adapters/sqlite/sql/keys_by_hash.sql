-- One statement, so that no merge can happen in between.
SELECT seq FROM clinch_key_new WHERE hash = ?1
UNION ALL SELECT seq FROM clinch_key_mid WHERE hash = ?1
UNION ALL SELECT seq FROM clinch_key WHERE hash = ?1
