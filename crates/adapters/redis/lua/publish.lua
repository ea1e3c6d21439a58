-- Announces hints: those without a delay to their stream, the others to the delayed set.
-- KEYS: delayed set, sequence, topics, then one stream for each topic named.
-- ARGV: offset, delayed_max, backlog_max, channel, count of topics, the topics, then for
--       each hint: number of its topic, delay in microseconds, hint.
-- Returns 1, or 0 if it would grow past a bound; then nothing was written.
local now = now_us()
local delayed_max, backlog_max, channel = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local topics = tonumber(ARGV[5])
local first_hint = 6 + topics
local at_once, later = {}, 0
for i = first_hint, #ARGV, 3 do
  local topic = tonumber(ARGV[i])
  if tonumber(ARGV[i + 1]) > 0 then
    later = later + 1
  else
    at_once[topic] = (at_once[topic] or 0) + 1
  end
end
for topic, count in pairs(at_once) do
  if redis.call('XLEN', KEYS[3 + topic]) + count > backlog_max then return 0 end
end
if later > 0 and redis.call('ZCARD', KEYS[1]) + later > delayed_max then return 0 end
for topic = 1, topics do
  redis.call('SADD', KEYS[3], ARGV[5 + topic])
end
local before = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
local soonest
for i = first_hint, #ARGV, 3 do
  local topic, delay, hint = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), ARGV[i + 2]
  if delay > 0 then
    -- The number keeps what is due at the same time in the order of publication.
    local number = string.format('%016.0f', redis.call('INCR', KEYS[2]))
    local due = now + delay
    local member = number .. '|0|' .. ARGV[5 + topic] .. '|' .. hint
    redis.call('ZADD', KEYS[1], int(due), member)
    if not soonest or due < soonest then soonest = due end
  else
    redis.call('XADD', KEYS[3 + topic], '*', 'h', hint, 'n', '0')
  end
end
if soonest and (not before or soonest < tonumber(before)) then
  redis.call('PUBLISH', channel, 'due')
end
return 1
