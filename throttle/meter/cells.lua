-- Takes of cells, alike in all but the key. cells.go is the same arithmetic, and says why.
--
-- KEYS  the cells: strings, for each rate LENGTH SPAN NEWEST COUNT SUM COUNT…, with ; between
--       rates: how many are in the newest cell, in all older ones, and in each of these
-- ARGV  least, most, and for each rate: count without what is kept, length, span; then how
--       often to take from each key
-- Returns of each take the units, what is left in µs, and which rate denies, from 1; in the
-- place of the units what is wrong with the key. Lengths are in µs of this server's clock.

local least, most = ARGV[1] + 0, ARGV[2] + 0
local max, min, floor = math.max, math.min, math.floor

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local rates = {}
for i = 3, #ARGV - #KEYS, 3 do
  local room, length, span = ARGV[i] + 0, ARGV[i + 1] + 0, ARGV[i + 2] + 0
  local newest = floor(now / length)
  local head = string.format('%d %d %d', length, span, newest) -- of the cells that are up to date
  rates[#rates + 1] = {room = room, length = length, span = span, newest = newest, head = head}
end

-- counts returns how many are in each cell, the newest first.
local function counts(c)
  local all = {c.count}
  for n in string.gmatch(c.older, '%d+') do all[#all + 1] = n + 0 end
  return all
end

-- set sets them. Older ones stay text, which most takes need not read.
local function set(c, all)
  c.count, c.sum, c.older = all[1], 0, ''
  for i = 2, #all do c.sum = c.sum + all[i] end
  if #all > 1 then c.older = ' ' .. table.concat(all, ' ', 2) end
end

-- aged returns the cells as they are now, of the rate's length.
local function aged(from, rate)
  local all = {0}
  for age, n in ipairs(counts(from)) do
    local last = min(now, (from.newest - age + 2) * from.length - 1)
    local place = rate.newest - floor(last / rate.length) + 1
    if place <= rate.span then
      for hole = #all + 1, place do all[hole] = 0 end
      all[place] = all[place] + n
    end
  end
  local c = {}
  set(c, all)
  return c
end

-- Of the key at hand: what is written there, and each rate's cells as they are now.
local text, all, changed

-- read returns what is wrong with the key.
local function read(key)
  local known = {}
  all, changed, text = {}, false, redis.pcall('GET', key)
  if text then
    for head, count, sum, older in string.gmatch(type(text) == 'string' and text or '', '(%d+ %d+ %d+) (%d+) (%d+)([ %d]*);') do
      known[#known + 1] = {head = head, count = count + 0, sum = sum + 0, older = older}
    end
    if #known == 0 then return 'WRONGTYPE it holds no cells: delete it' end
  end
  for i, rate in ipairs(rates) do
    local c = known[i]
    if not c or c.head ~= rate.head then
      local from -- those of the same length, else of the greatest
      for _, k in ipairs(known) do
        local length, newest = string.match(k.head, '(%d+) %d+ (%d+)')
        k.length, k.newest = length + 0, newest + 0
        if not from or from.length ~= rate.length and (k.length == rate.length or k.length > from.length) then from = k end
      end
      changed = changed or from and (from.length ~= rate.length or from.newest > rate.newest)
      c = from and aged(from, rate) or {count = 0, sum = 0, older = ''}
    end
    all[i] = c
  end
end

-- take returns the units, what is left and which rate denies.
local function take()
  if most < 0 then
    for _, c in ipairs(all) do
      local left, of = -most, counts(c)
      for age, n in ipairs(of) do
        of[age], left = max(0, n - left), max(0, left - n)
      end
      set(c, of)
    end
    changed = true
    return 0, 0, 0
  end
  local units, free, denies = most, now, 0
  for i, c in ipairs(all) do
    local room = rates[i].room - c.count - c.sum
    units = min(units, room)
    if room < least then
      local of, short = counts(c), least - room
      local age = #of
      short = short - of[age]
      while short > 0 and age > 1 do
        age = age - 1
        short = short - of[age]
      end
      local at = (rates[i].newest - age + 1 + rates[i].span) * rates[i].length
      if at > free then free, denies = at, i end
    end
  end
  if free > now or most == 0 then return 0, free - now, denies end
  for _, c in ipairs(all) do c.count = c.count + units end
  changed = true
  return units, 0, 0
end

-- write fails where Redis writes nothing, and so for the first key of all.
local function write(key)
  local lapses, cells = 0, ''
  for i, c in ipairs(all) do
    local age = 1
    if c.count == 0 then
      local of = counts(c)
      while of[age] == 0 do age = age + 1 end
      if not of[age] then age = nil end
    end
    if age then lapses = max(lapses, (rates[i].newest - age + 1 + rates[i].span) * rates[i].length) end
    cells = cells .. string.format('%s %d %d%s;', rates[i].head, c.count, c.sum, c.older)
  end
  if lapses > 0 then
    redis.call('SET', key, cells, 'PXAT', math.ceil(lapses / 1000))
  elseif text then
    redis.call('DEL', key)
  end
end

local answers, n = {}, 0
for i, key in ipairs(KEYS) do
  local problem, times = read(key), ARGV[#ARGV - #KEYS + i] + 0
  for _ = 1, times do
    local units, left, denies = problem, 0, 0
    if not problem then units, left, denies = take() end
    answers[n + 1], answers[n + 2], answers[n + 3] = units, left, denies
    n = n + 3
  end
  if changed then write(key) end
end
return answers
