-- Reserves one call: spaced by the rate after its burst, and never more than `permits` in
-- any stretch of `per`.
-- KEYS: limiter, moments given out. ARGV: offset, permits, per, burst, longest wait; times
-- in microseconds.
-- Returns {1, wait, calls left at once} or {0, worth trying after, 1 if it is paused}.
local now, permits, per = now_us(), tonumber(ARGV[2]), tonumber(ARGV[3])
local burst, wait_max = tonumber(ARGV[4]), tonumber(ARGV[5])
local interval = math.ceil(per / permits)
local tolerance = interval * (burst - 1)
local held = redis.call('HMGET', KEYS[1], 'arrival', 'paused')
local arrival, paused = tonumber(held[1]) or 0, tonumber(held[2]) or 0
local spaced = math.max(0, arrival - tolerance - now)
local window, given = 0, redis.call('LLEN', KEYS[2])
if given >= permits then
  window = math.max(0, tonumber(redis.call('LINDEX', KEYS[2], -permits)) + per - now)
end
local pause = math.max(0, paused - now)
local wait = math.max(spaced, window, pause)
if wait > wait_max then
  local after = math.max(wait - wait_max, pause)
  return { 0, int(after), pause > 0 and 1 or 0 }
end
local moment = now + wait
local from = wait > spaced and moment or now
arrival = math.max(arrival, from) + interval
redis.call('HSET', KEYS[1], 'arrival', int(arrival))
redis.call('RPUSH', KEYS[2], int(moment))
if given >= permits then redis.call('LTRIM', KEYS[2], -permits, -1) end
-- After a whole period without a call nothing of it matters.
local life = int((math.max(arrival, moment + per, paused) - now) / 1000 + 1000)
redis.call('PEXPIRE', KEYS[1], life)
redis.call('PEXPIRE', KEYS[2], life)
local left = math.floor((now + tolerance + interval - math.max(arrival, now)) / interval)
return { 1, int(wait), math.max(0, left) }
