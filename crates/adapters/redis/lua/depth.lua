-- How much there is, for people and metrics. Reads only.
-- KEYS: topics, delayed set, scheduler's lock. ARGV: offset, group, what stream names begin
-- with.
-- Returns {entries, on loan, delayed, 1 if somebody leads}.
local entries, on_loan = 0, 0
for _, topic in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  local key = ARGV[3] .. topic
  entries = entries + redis.call('XLEN', key)
  local pending = redis.pcall('XPENDING', key, ARGV[2])
  if not pending.err then on_loan = on_loan + pending[1] end
end
local ends = tonumber(redis.call('HGET', KEYS[3], 'until')) or 0
return { entries, on_loan, redis.call('ZCARD', KEYS[2]), ends > now_us() and 1 or 0 }
