-- Done with these: no longer pending, and gone from the stream.
-- KEYS: the streams. ARGV: offset, group, then for each: number of its stream, id.
for i = 3, #ARGV, 2 do
  local key = KEYS[tonumber(ARGV[i])]
  redis.call('XACK', key, ARGV[2], ARGV[i + 1])
  redis.call('XDEL', key, ARGV[i + 1])
end
return 1
