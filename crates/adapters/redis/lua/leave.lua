-- Consumers that read nothing for a day and owe nothing are forgotten: processes come and go.
-- KEYS: the streams. ARGV: offset, group, milliseconds.
local count = 0
for _, key in ipairs(KEYS) do
  local consumers = redis.pcall('XINFO', 'CONSUMERS', key, ARGV[2])
  if not consumers.err then
    for _, consumer in ipairs(consumers) do
      local map = {}
      for i = 1, #consumer, 2 do map[consumer[i]] = consumer[i + 1] end
      if map.pending == 0 and map.idle >= tonumber(ARGV[3]) then
        redis.call('XGROUP', 'DELCONSUMER', key, ARGV[2], map.name)
        count = count + 1
      end
    end
  end
end
return count
