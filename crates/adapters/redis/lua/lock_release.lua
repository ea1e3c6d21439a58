-- Ends a lock that is ours. The fence stays: the next owner's must be higher.
-- KEYS: lock. ARGV: offset, owner, channel to tell, or nothing.
local now = now_us()
local held = redis.call('HMGET', KEYS[1], 'owner', 'until')
if held[1] ~= ARGV[2] or (tonumber(held[2]) or 0) <= now then return 0 end
redis.call('HSET', KEYS[1], 'until', int(now))
if ARGV[3] ~= '' then redis.call('PUBLISH', ARGV[3], 'free') end
return 1
