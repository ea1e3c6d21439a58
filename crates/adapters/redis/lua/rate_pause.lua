-- The provider asked everyone to stay away: tells every node. A shorter pause does not end
-- a longer one; at its end the burst is spent. With no time it only says what is left.
-- KEYS: limiter. ARGV: offset, lasting, burst's worth of time, channel, destination; times
-- in microseconds.
-- Returns the microseconds that are left of the pause.
local now, lasting, tolerance = now_us(), tonumber(ARGV[2]), tonumber(ARGV[3])
local held = redis.call('HMGET', KEYS[1], 'arrival', 'paused')
local arrival, paused = tonumber(held[1]) or 0, tonumber(held[2]) or 0
if lasting <= 0 then return int(math.max(0, paused - now)) end
paused = math.max(paused, now + lasting)
arrival = math.max(arrival, paused + tolerance)
redis.call('HSET', KEYS[1], 'paused', int(paused), 'arrival', int(arrival))
redis.call('PEXPIRE', KEYS[1], int((arrival - now) / 1000 + 1000))
redis.call('PUBLISH', ARGV[4], 'pause ' .. int(paused - now) .. ' ' .. ARGV[5])
return int(paused - now)
