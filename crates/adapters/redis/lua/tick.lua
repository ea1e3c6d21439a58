-- The scheduler's one command: stays leader, moves what is due to its stream, and tells
-- readers of loans that ran out. Under an older fence it does nothing.
-- KEYS: lock, delayed set, topics, nudges.
-- ARGV: offset, owner, fence, time to live in microseconds, batch, what stream names begin
--       with, group, visibility in milliseconds.
-- Returns {0}, or {1, promoted, microseconds until the next is due or -1}.
local now, owner, fence, ttl = now_us(), ARGV[2], ARGV[3], tonumber(ARGV[4])
local streams, group, visibility = ARGV[6], ARGV[7], tonumber(ARGV[8])
local held = redis.call('HMGET', KEYS[1], 'owner', 'fence', 'until', 'looked')
if held[1] ~= owner or held[2] ~= fence or (tonumber(held[3]) or 0) <= now then
  return { 0 }
end
redis.call('HSET', KEYS[1], 'until', int(now + ttl))
redis.call('PEXPIRE', KEYS[1], int(ttl / 1000 + 86400000))

local due = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', int(now), 'LIMIT', 0, ARGV[5])
for _, member in ipairs(due) do
  redis.call('ZREM', KEYS[2], member)
  local again, topic, hint = string.match(member, '^%d+|(%d+)|([^|]*)|(.*)$')
  if topic then
    redis.call('XADD', streams .. topic, '*', 'h', hint, 'n', again)
  end
end

-- A look reads the whole pending list: once for each renewal, not for each due hint.
local topics = {}
if now - (tonumber(held[4]) or 0) >= ttl / 4 then
  redis.call('HSET', KEYS[1], 'looked', int(now))
  topics = redis.call('SMEMBERS', KEYS[3])
end
for _, topic in ipairs(topics) do
  local key = streams .. topic
  local overdue = redis.pcall('XPENDING', key, group, 'IDLE', ARGV[8], '-', '+', 1)
  if not overdue.err and overdue[1] then
    -- One entry without a hint wakes one reader; another only when that is used up.
    local nudge = redis.call('HGET', KEYS[4], topic)
    local there = nudge and redis.call('XRANGE', key, nudge, nudge)[1]
    if there then
      local pending = redis.call('XPENDING', key, group, nudge, nudge, 1)[1]
      if pending and pending[3] >= visibility then
        redis.call('XACK', key, group, nudge)
        redis.call('XDEL', key, nudge)
        there = nil
      end
    end
    if not there then
      redis.call('HSET', KEYS[4], topic, redis.call('XADD', key, '*', 'look', '1'))
    end
  end
end

local next_due = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
local wait = -1
if next_due then wait = math.max(0, tonumber(next_due) - now) end
return { 1, #due, int(wait) }
