-- A take of cells. cells.go is the same arithmetic, and says why.
--
-- KEYS  the cells: a string, for each rate LENGTH NEWEST COUNT… and a semicolon, the
--       counts of the newest cell and those before it
-- ARGV  least, most, and for each rate: count without what is kept, length, span
-- Returns the units, what is left in µs, and which rate denies, from 1. Lengths are in µs
-- of this server's clock.

local least, most = tonumber(ARGV[1]), tonumber(ARGV[2])
local max, min, floor = math.max, math.min, math.floor

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local known, text = {}, redis.pcall('GET', KEYS[1])
if text then
  if type(text) ~= 'string' or not string.match(text, '^%d[%d ;]+;$') then
    return redis.error_reply('WRONGTYPE it holds no cells: delete it')
  end
  for words in string.gmatch(text, '[^;]+') do
    local from = {}
    for word in string.gmatch(words, '%d+') do from[#from + 1] = tonumber(word) end
    known[#known + 1] = from
  end
end

-- Each rate's cells, as they are now: counts by age.
local all, units, free, denies, changed = {}, most, now, 0, false
for i = 3, #ARGV, 3 do
  local room, length, span = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local c = {length = length, newest = floor(now / length), span = span, counts = {}}
  for age = 0, span - 1 do c.counts[age] = 0 end
  all[#all + 1] = c
  local from
  for _, k in ipairs(known) do
    if not from or from[1] ~= length and (k[1] == length or k[1] > from[1]) then from = k end
  end
  if from then
    changed = changed or from[1] ~= length or from[2] > c.newest
    for j = 3, #from do
      local last = min(now, (from[2] - j + 4) * from[1] - 1)
      local age = c.newest - floor(last / length)
      if age < span then
        c.counts[age] = c.counts[age] + from[j]
        room = room - from[j]
      end
    end
  end
  units = min(units, room)
  if room < least then
    local age, short = span - 1, least - room - c.counts[span - 1]
    while short > 0 do
      age = age - 1
      short = short - c.counts[age]
    end
    local at = (c.newest - age + span) * length
    if at > free then free, denies = at, #all end
  end
end

if most < 0 then
  for _, c in ipairs(all) do
    local left = -most
    for age = 0, c.span - 1 do
      local n = min(left, c.counts[age])
      c.counts[age], left = c.counts[age] - n, left - n
    end
  end
  units, free, denies, changed = 0, now, 0, true
elseif free > now or most == 0 then
  units = 0
else
  for _, c in ipairs(all) do c.counts[0] = c.counts[0] + units end
  changed = true
end

if changed then
  local words, lapses = {}, 0
  for _, c in ipairs(all) do
    words[#words + 1] = string.format('%.0f %.0f', c.length, c.newest)
    local oldest = c.span - 1
    while oldest > 0 and c.counts[oldest] == 0 do oldest = oldest - 1 end
    for age = 0, oldest do words[#words + 1] = string.format(' %.0f', c.counts[age]) end
    words[#words + 1] = ';'
    for age = 0, oldest do
      if c.counts[age] > 0 then
        lapses = max(lapses, (c.newest - age + c.span) * c.length)
        break
      end
    end
  end
  if lapses > 0 then
    redis.call('SET', KEYS[1], table.concat(words), 'PXAT', string.format('%.0f', math.ceil(lapses / 1000)))
  elseif text then
    redis.call('DEL', KEYS[1])
  end
end
return {units, free - now, denies}
