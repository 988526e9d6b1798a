-- A take of cells. cells.go is the same arithmetic, and says why.
--
-- KEYS  the cells: in JSON, for each rate [LENGTH, NEWEST, COUNT…], the counts of the
--       newest cell and of those before it
-- ARGV  least, most, and for each rate: count without what is kept, length, span
-- Returns the units, what is left in µs, and which rate denies, from 1. Lengths are in µs
-- of this server's clock.

local least, most = ARGV[1] + 0, ARGV[2] + 0
local max, min, floor = math.max, math.min, math.floor

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local known, text = {}, redis.pcall('GET', KEYS[1])
if text then
  local ok
  ok, known = pcall(cjson.decode, text)
  if not ok or type(known) ~= 'table' then return redis.error_reply('WRONGTYPE it holds no cells: delete it') end
end

-- Each rate's cells as they are now, in the same form.
local all, units, free, denies, changed = {}, most, now, 0, false
for i = 3, #ARGV, 3 do
  local room, length, span = ARGV[i] + 0, ARGV[i + 1] + 0, ARGV[i + 2] + 0
  local newest, from = floor(now / length), nil
  for _, k in ipairs(known) do
    if not from or from[1] ~= length and (k[1] == length or k[1] > from[1]) then from = k end
  end
  local c = from
  if not from or from[1] ~= length or from[2] ~= newest or #from > span + 2 then
    c = {length, newest, 0}
    for j = 3, from and #from or 0 do
      local last = min(now, (from[2] - j + 4) * from[1] - 1)
      local place = newest - floor(last / length) + 3
      if place < span + 3 then
        for hole = #c + 1, place do c[hole] = 0 end
        c[place] = c[place] + from[j]
      end
    end
    changed = changed or from and (from[1] ~= length or from[2] > newest or #from > span + 2)
  end
  all[#all + 1] = c
  for place = 3, #c do room = room - c[place] end
  units = min(units, room)
  if room < least then
    local place, short = #c + 1, least - room
    while short > 0 do
      place = place - 1
      short = short - c[place]
    end
    local at = (newest - place + 3 + span) * length
    if at > free then free, denies = at, #all end
  end
end

if most < 0 then
  for _, c in ipairs(all) do
    local left = -most
    for place = 3, #c do
      c[place], left = max(0, c[place] - left), max(0, left - c[place])
    end
  end
  units, free, denies, changed = 0, now, 0, true
elseif free > now or most == 0 then
  units = 0
else
  for _, c in ipairs(all) do c[3] = c[3] + units end
  changed = true
end

if changed then
  local lapses = 0
  for i, c in ipairs(all) do
    local place = 3
    while c[place] == 0 do place = place + 1 end
    if c[place] then lapses = max(lapses, (c[2] - place + 3 + ARGV[3 * i + 2]) * c[1]) end
    all[i] = string.format('[%d' .. string.rep(',%d', #c - 1) .. ']', unpack(c))
  end
  if lapses > 0 then
    redis.call('SET', KEYS[1], '[' .. table.concat(all, ',') .. ']', 'PXAT', math.ceil(lapses / 1000))
  elseif text then
    redis.call('DEL', KEYS[1])
  end
end
return {units, free - now, denies}
