-- Takes deliveries without waiting: first those whose loan ran out, then new ones.
-- KEYS: one stream for each topic asked for.
-- ARGV: offset, group, consumer, max, visibility in milliseconds, then a cursor a stream.
-- Returns {vanished, {cursor ...}, {{number of the stream, id, deliveries, redeliveries
-- before, hint} ...}}.
local group, consumer, left, idle = ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
-- Bounds what one call looks through; the cursor goes on where it stopped.
local ROUNDS_MAX = 8
local vanished, cursors, taken = 0, {}, {}

local function fields(entry)
  local map = {}
  for i = 1, #entry[2], 2 do map[entry[2][i]] = entry[2][i + 1] end
  return map
end

local function add(number, key, entry, deliveries)
  local map = fields(entry)
  if not map.h then
    -- Somebody was told to look for ended loans; that is done here.
    redis.call('XACK', key, group, entry[1])
    redis.call('XDEL', key, entry[1])
    return
  end
  taken[#taken + 1] = { number, entry[1], deliveries, tonumber(map.n) or 0, map.h }
  left = left - 1
end

for number, key in ipairs(KEYS) do
  local cursor = ARGV[5 + number]
  for _ = 1, ROUNDS_MAX do
    if left <= 0 then break end
    local claimed =
      redis.call('XAUTOCLAIM', key, group, consumer, idle, cursor, 'COUNT', left)
    vanished = vanished + #(claimed[3] or {})
    for _, entry in ipairs(claimed[2]) do
      local pending = redis.call('XPENDING', key, group, entry[1], entry[1], 1)
      add(number, key, entry, pending[1][4])
    end
    cursor = claimed[1]
    if cursor == '0-0' then break end
  end
  cursors[number] = cursor
end
for number, key in ipairs(KEYS) do
  while left > 0 do
    local read = redis.call(
      'XREADGROUP', 'GROUP', group, consumer, 'COUNT', left, 'STREAMS', key, '>')
    if not read then break end
    for _, entry in ipairs(read[1][2]) do add(number, key, entry, 1) end
  end
end
return { vanished, cursors, taken }
