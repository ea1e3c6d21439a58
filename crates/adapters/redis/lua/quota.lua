-- What is known of a budget, by the rules of `QuotaState`: change one with the other.
-- Times in milliseconds; an absent field is unknown.
local now = math.floor(now_us() / 1000)

local function load_state()
  local held = redis.call(
    'HMGET', KEYS[1], 'limit', 'remaining', 'reset', 'asking', 'blocked')
  local state = {
    limit = tonumber(held[1]), remaining = tonumber(held[2]), reset = tonumber(held[3]),
    asking = tonumber(held[4]), blocked = tonumber(held[5]),
  }
  if state.reset and state.reset <= now then
    state.limit, state.remaining, state.reset = nil, nil, nil
  end
  if state.asking and state.asking <= now then state.asking = nil end
  if state.blocked and state.blocked <= now then state.blocked = nil end
  return state
end

local function save_state(state)
  redis.call('DEL', KEYS[1])
  local last = math.max(state.reset or 0, state.asking or 0, state.blocked or 0)
  if last <= now then return end
  for field, value in pairs(state) do
    redis.call('HSET', KEYS[1], field, int(value))
  end
  redis.call('PEXPIRE', KEYS[1], int(last - now + 1000))
end

