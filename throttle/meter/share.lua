-- Divides a limit among holders, on Redis's clock, in µs since 1970.
-- KEYS  1 hash: HOLDER -> "NUMBER HELD WANTS UNTIL"
-- ARGV  holder, number of the claim, limit, holds, wants, life
-- Returns the holder's part; -1 if the holder has had the answer to a later claim.
local key, holder = KEYS[1], ARGV[1]
local number, limit, holds, wants, life = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])

local all = redis.call('HGETALL', key)
local wishes, room, last, own, lapsed = {{wants, holder}}, limit, now + life, nil, {}
for i = 1, #all, 2 do
  local of, held, wanted, ends = string.match(all[i + 1], '^(%d+) (%d+) (%d+) (%d+)$')
  ends = tonumber(ends)
  if not ends or ends <= now then
    lapsed[#lapsed + 1] = all[i]
  elseif all[i] == holder then
    if tonumber(of) >= number then return -1 end
    own = tonumber(held)
  else
    wishes[#wishes + 1] = {tonumber(wanted), all[i]}
    room, last = room - tonumber(held), math.max(last, ends)
  end
end
room = math.max(room, 0)

-- the smallest wants are served first; each holder gets at most an equal part of the rest
table.sort(wishes, function(a, b) return a[1] < b[1] or a[1] == b[1] and a[2] < b[2] end)
local left, fair = math.max(limit, 0), 0
for i, wish in ipairs(wishes) do
  fair = math.min(wish[1], math.floor(left / (#wishes - i + 1)))
  left = left - fair
  if wish[2] == holder then break end
end

local granted = math.min(fair, room)
if own then
  holds = math.min(holds, own)
elseif holds > 0 then -- Redis has lost this holder, and maybe holders that have not renewed since
  holds = math.min(holds, room)
  granted = math.min(granted, holds)
end
local held = math.max(granted, holds)

for _, name in ipairs(lapsed) do redis.call('HDEL', key, name) end
if held == 0 and wants == 0 then
  redis.call('HDEL', key, holder)
else
  redis.call('HSET', key, holder, string.format('%.0f %.0f %.0f %.0f', number, held, wants, now + life))
end
redis.call('PEXPIREAT', key, string.format('%.0f', math.ceil(last / 1000)))
return granted
