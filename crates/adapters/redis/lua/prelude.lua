-- The server's clock in microseconds, moved on by a test's offset (the first argument of
-- every script).
local function now_us()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000000 + tonumber(t[2]) + tonumber(ARGV[1])
end

-- Whole numbers without an exponent: Lua would round what it prints.
local function int(number)
  return string.format('%.0f', number)
end

