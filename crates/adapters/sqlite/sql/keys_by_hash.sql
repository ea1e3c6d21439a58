-- New keys are looked up in memory, on the same snapshot.
SELECT seq FROM clinch_key_mid WHERE hash = ?1
UNION ALL SELECT seq FROM clinch_key WHERE hash = ?1
