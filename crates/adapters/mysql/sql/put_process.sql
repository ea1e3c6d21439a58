INSERT IGNORE INTO clinch_process (process) VALUES ({process})
