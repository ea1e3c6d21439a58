-- For tests: loans grow older by so many milliseconds. The server counts their age itself,
-- so that no offset can be added to it.
-- KEYS: topics. ARGV: offset, group, milliseconds, what stream names begin with.
for _, topic in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  local key = ARGV[4] .. topic
  local pending = redis.pcall('XPENDING', key, ARGV[2], '-', '+', 10000)
  if not pending.err then
    for _, entry in ipairs(pending) do
      local idle = int(entry[3] + tonumber(ARGV[3]))
      redis.call('XCLAIM', key, ARGV[2], entry[2], 0, entry[1], 'IDLE', idle, 'JUSTID')
    end
  end
end
return 1
