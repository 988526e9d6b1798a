-- Takes units from the cells of one or more keys, which all have the same rates. cells.go has the same
-- arithmetic and explains it.
--
-- KEYS  strings with the cells of each rate, as LENGTH NEWEST COUNT…; the newest cell is first
-- ARGV  least, most, and for each rate: count minus the reserve, length, span; the number of
--       takes from each key, "" for one
-- Returns for each take: the units, or an error of the key; the time left in µs; the index of the
-- rate that denies, from 1. Lengths are in µs of this server's clock.

local least, most = ARGV[1] + 0, ARGV[2] + 0
local max, min, floor, ceil = math.max, math.min, math.floor, math.ceil

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local rates = {}
for i = 3, #ARGV - 1, 3 do
  local length = ARGV[i + 1] + 0
  rates[#rates + 1] = {room = ARGV[i] + 0, length = length, span = ARGV[i + 2] + 0, newest = floor(now / length)}
end

-- read returns the key's cells of each rate, and an error.
local function read(key)
  local text, known = redis.pcall('GET', key), {}
  if not text then return known end
  if type(text) == 'string' then
    for length, newest, counts in string.gmatch(text, '(%d+) (%d+)([ %d]*);') do
      local cells = {length = length + 0, newest = newest + 0}
      for n in string.gmatch(counts, '%d+') do cells[#cells + 1] = n + 0 end
      known[#known + 1] = cells
    end
  end
  if #known == 0 then return known, 'WRONGTYPE the key holds no cells: delete the key' end
  return known
end

-- aged returns the rate's cells at the time now, and whether they must be stored: their length has
-- changed, or the clock was set back.
local function aged(known, rate)
  local from -- the cells of the rate's length, or else those of the greatest length
  for _, cells in ipairs(known) do
    if not from or from.length ~= rate.length and (cells.length == rate.length or cells.length > from.length) then from = cells end
  end
  local cells = {0}
  for age, n in ipairs(from or {}) do
    local last = min(now, (from.newest - age + 2) * from.length - 1)
    local place = rate.newest - floor(last / rate.length) + 1
    if place <= rate.span then
      for hole = #cells + 1, place do cells[hole] = 0 end
      cells[place] = cells[place] + n
    end
  end
  return cells, from and (from.length ~= rate.length or from.newest > rate.newest)
end

-- passes returns the time from which the rate's cell of that age no longer counts.
local function passes(rate, age) return (rate.newest - age + 1 + rate.span) * rate.length end

-- take returns the units, the time left, the rate that denies, and whether the cells changed.
local function take(all)
  if most < 0 then
    for _, cells in ipairs(all) do
      local left = -most
      for age, n in ipairs(cells) do
        cells[age], left = max(0, n - left), max(0, left - n)
      end
    end
    return 0, 0, 0, true
  end
  local units, free, denies = most, now, 0
  for i, rate in ipairs(rates) do
    local cells, room = all[i], rate.room
    for _, n in ipairs(cells) do room = room - n end
    units = min(units, room)
    if room < least then
      local age = #cells
      room = room + cells[age]
      while room < least and age > 1 do
        age = age - 1
        room = room + cells[age]
      end
      local at = passes(rate, age)
      if at > free then free, denies = at, i end
    end
  end
  if free > now or most == 0 then return 0, free - now, denies end
  for _, cells in ipairs(all) do cells[1] = cells[1] + units end
  return units, 0, 0, true
end

-- write stores the cells. If Redis rejects writes, the first write fails, and no cells change.
local function write(key, all)
  local expires, texts = 0, {}
  for i, rate in ipairs(rates) do
    for age, n in ipairs(all[i]) do
      if n > 0 then expires = max(expires, passes(rate, age)) end
    end
    texts[i] = string.format('%d %d %s;', rate.length, rate.newest, table.concat(all[i], ' '))
  end
  if expires > 0 then
    redis.call('SET', key, table.concat(texts), 'PXAT', ceil(expires / 1000))
  else
    redis.call('DEL', key)
  end
end

local times, answers, n = {}, {}, 0
for often in string.gmatch(ARGV[#ARGV], '%d+') do times[#times + 1] = often + 0 end
for i, key in ipairs(KEYS) do
  local known, problem = read(key)
  local all, changed = {}, false
  for k, rate in ipairs(rates) do
    local differs
    all[k], differs = aged(known, rate)
    changed = changed or differs
  end
  for _ = 1, times[i] or 1 do
    local units, left, denies, taken = problem, 0, 0, false
    if not problem then units, left, denies, taken = take(all) end
    answers[n + 1], answers[n + 2], answers[n + 3] = units, left, denies
    changed, n = changed or taken, n + 3
  end
  if changed then write(key, all) end
end
return answers
