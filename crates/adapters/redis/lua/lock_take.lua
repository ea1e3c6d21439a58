-- Takes a lock that is free, or moves its end if it is ours.
-- KEYS: lock. ARGV: offset, owner, time to live in microseconds.
-- Returns {1, fence} or {0, microseconds until its end}. A fence is a moment of the server's
-- clock or one more than the last, whichever is higher: it grows also when data was lost.
local now, owner, ttl = now_us(), ARGV[2], tonumber(ARGV[3])
local held = redis.call('HMGET', KEYS[1], 'owner', 'fence', 'until')
local ends = tonumber(held[3]) or 0
local fence = held[2]
if ends > now then
  if held[1] ~= owner then return { 0, int(ends - now) } end
else
  fence = int(math.max((tonumber(fence) or 0) + 1, now))
end
redis.call('HSET', KEYS[1], 'owner', owner, 'fence', fence, 'until', int(now + ttl))
redis.call('PEXPIRE', KEYS[1], int(ttl / 1000 + 86400000))
return { 1, fence }
