-- KEYS: budget. ARGV: offset, limit, remaining, reset, retry after (each empty if it was not
-- said), answer within, longest window, how close the ends of one window lie, calls to give
-- back.
local limit, remaining, reset = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local retry_after, answer_within = tonumber(ARGV[5]), tonumber(ARGV[6])
local window_max, close = tonumber(ARGV[7]), tonumber(ARGV[8])
local unspent = tonumber(ARGV[9])
local state = load_state()
local function block(lasting)
  if lasting > 0 then state.blocked = math.max(state.blocked or 0, now + lasting) end
end
if retry_after then block(math.min(retry_after, window_max)) end
if reset and math.abs(reset - now) > window_max then reset = nil end
-- Of a window that is over: a late answer.
if reset and reset <= now then
  save_state(state)
  return 0
end
if not remaining then
  state.asking = nil
  save_state(state)
  return 0
end
remaining = math.max(0, remaining)
if state.reset and reset and reset + close < state.reset then
  save_state(state)
  return 0
end
if state.reset and (not reset or reset <= state.reset + close) then
  state.limit = limit or state.limit
  state.remaining = math.min(state.remaining + unspent, remaining, state.limit)
elseif reset then
  state.limit = limit or remaining
  state.remaining = math.min(remaining, state.limit)
  state.reset = reset
elseif remaining == 0 then
  block(answer_within)
end
state.asking = nil
save_state(state)
return 1
