-- Not done: each goes back to the end of its stream, or to the delayed set. One that was
-- delivered to somebody else since, or is gone, is left alone.
-- KEYS: delayed set, sequence, then the streams.
-- ARGV: offset, group, channel, then for each: number of its stream, topic, id,
--       deliveries, delay in microseconds.
-- Returns how many went back.
local now, group, channel = now_us(), ARGV[2], ARGV[3]
local before = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
local soonest
local count = 0
for i = 4, #ARGV, 5 do
  local key, topic, id = KEYS[2 + tonumber(ARGV[i])], ARGV[i + 1], ARGV[i + 2]
  local deliveries, delay = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  local pending = redis.pcall('XPENDING', key, group, id, id, 1)
  if not pending.err and pending[1] and pending[1][4] == deliveries then
    local entry = redis.call('XRANGE', key, id, id)[1]
    redis.call('XACK', key, group, id)
    redis.call('XDEL', key, id)
    if entry then
      local map = {}
      for f = 1, #entry[2], 2 do map[entry[2][f]] = entry[2][f + 1] end
      local again = int((tonumber(map.n) or 0) + deliveries)
      if map.h and delay > 0 then
        local number = string.format('%016.0f', redis.call('INCR', KEYS[2]))
        local due = now + delay
        local member = number .. '|' .. again .. '|' .. topic .. '|' .. map.h
        redis.call('ZADD', KEYS[1], int(due), member)
        if not soonest or due < soonest then soonest = due end
      elseif map.h then
        redis.call('XADD', key, '*', 'h', map.h, 'n', again)
      end
      count = count + 1
    end
  end
end
if soonest and (not before or soonest < tonumber(before)) then
  redis.call('PUBLISH', channel, 'due')
end
return count
