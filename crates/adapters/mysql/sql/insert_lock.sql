INSERT INTO clinch_lock (name, owner, until_at, fence) VALUES ({name}, '', 0, 0)
ON DUPLICATE KEY UPDATE name = clinch_lock.name
