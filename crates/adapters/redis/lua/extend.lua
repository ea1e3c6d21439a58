-- Still working: the loan starts anew. XCLAIM JUSTID counts no delivery.
-- KEYS: the streams. ARGV: offset, group, then for each: number of its stream, id,
-- deliveries, how much of the loan counts as over already, in milliseconds.
-- Returns how many were still ours.
local group, count = ARGV[2], 0
for i = 3, #ARGV, 4 do
  local key, id, deliveries = KEYS[tonumber(ARGV[i])], ARGV[i + 1], tonumber(ARGV[i + 2])
  local pending = redis.pcall('XPENDING', key, group, id, id, 1)
  if not pending.err and pending[1] and pending[1][4] == deliveries then
    redis.call('XCLAIM', key, group, pending[1][2], 0, id, 'IDLE', ARGV[i + 3], 'JUSTID')
    count = count + 1
  end
end
return count
