SELECT process FROM clinch_process
WHERE process NOT IN ({own}) AND IS_FREE_LOCK(CONCAT('clinch_', LOWER(HEX(process))))
