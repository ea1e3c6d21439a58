-- KEYS: budget. ARGV: offset, permits, threshold, answer within, longest wait.
-- Returns {1}: granted, {0, wait}: ask again after, or {2}: more than a window has.
local permits, threshold = tonumber(ARGV[2]), tonumber(ARGV[3])
local answer_within, wait_max = tonumber(ARGV[4]), tonumber(ARGV[5])
local state = load_state()
local function wait(till)
  return { 0, int(math.min(till - now, wait_max)) }
end
if state.blocked then return wait(state.blocked) end
if not state.reset then
  if state.asking then return wait(state.asking) end
  state.asking = now + answer_within
  save_state(state)
  return { 1 }
end
local kept = math.min(threshold, math.floor(state.limit / 10))
if permits > 1 and state.limit > 0 and permits > state.limit - kept then return { 2 } end
if state.remaining < kept + permits then return wait(state.reset) end
state.remaining = state.remaining - permits
save_state(state)
return { 1 }
