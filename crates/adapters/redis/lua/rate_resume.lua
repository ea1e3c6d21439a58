-- An operator ends a pause: tells every node. As at the end of a pause the burst is spent.
-- KEYS: limiter. ARGV: offset, burst's worth of time, channel, destination; times in microseconds.
local now, tolerance = now_us(), tonumber(ARGV[2])
local held = redis.call('HMGET', KEYS[1], 'arrival', 'paused')
local arrival, paused = tonumber(held[1]) or 0, tonumber(held[2]) or 0
if paused > now then
    redis.call('HSET', KEYS[1], 'paused', int(now), 'arrival', int(math.min(arrival, now + tolerance)))
end
redis.call('PUBLISH', ARGV[3], 'pause 0 ' .. ARGV[4])
return 0
