-- Takes of cells, alike in all but the key. cells.go is the same arithmetic, and says why.
--
-- KEYS  the cells: strings, for each rate LENGTH SPAN NEWEST COUNT SUM COUNT…, with ; between
--       rates: how many are in the newest cell, in all older ones, and in each of these
-- ARGV  least, most, and for each rate: count without what is kept, length, span; how often
--       to take from each key, "" for once
-- Returns of each take the units, what is left in µs, and which rate denies, from 1; in the
-- place of the units what is wrong with the key. Lengths are in µs of this server's clock.

local least, most = ARGV[1] + 0, ARGV[2] + 0
local max, min, floor, ceil = math.max, math.min, math.floor, math.ceil
local find, format = string.find, string.format

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- Of the key at hand: what is written there, each rate's cells as they are now, whether
-- they have changed, and whether something was in the newest cell of every rate: then the
-- key expires with the last of these, as this script has set it.
local text, changed, kept
local all = {}

local rates, latest = {}, 0 -- and when all newest cells have passed
for i = 3, #ARGV - 1, 3 do
  local room, length, span = ARGV[i] + 0, ARGV[i + 1] + 0, ARGV[i + 2] + 0
  local newest = floor(now / length)
  local head = format('%d %d %d ', length, span, newest) -- of the cells that are up to date
  local pattern = '^' .. head .. '(%d+)( (%d+)[ %d]*);'
  rates[#rates + 1] = {room = room, length = length, span = span, newest = newest, head = head, pattern = pattern}
  all[#rates] = {}
  latest = max(latest, (newest + span) * length)
end

-- counts returns how many are in each cell, the newest first.
local function counts(c)
  local of = {c.count}
  for n in string.gmatch(string.match(c.rest, ' .*', 2) or '', '%d+') do of[#of + 1] = n + 0 end
  return of
end

-- set sets them, and uses the list up. Older ones stay text, which most takes need not read.
local function set(c, of)
  c.count, c.sum = of[1], 0
  for i = 2, #of do c.sum = c.sum + of[i] end
  of[1] = format(' %d', c.sum) -- comes before the older ones
  c.rest = table.concat(of, ' ')
end

-- aged returns the cells as they are now, of the rate's length.
local function aged(from, rate)
  local of = {0}
  for age, n in ipairs(counts(from)) do
    local last = min(now, (from.newest - age + 2) * from.length - 1)
    local place = rate.newest - floor(last / rate.length) + 1
    if place <= rate.span then
      for hole = #of + 1, place do of[hole] = 0 end
      of[place] = of[place] + n
    end
  end
  local c = {}
  set(c, of)
  return c
end

-- reread reads cells that are not all up to date, or none. It returns what is wrong with the key.
local function reread()
  local known = {}
  kept = false
  for length, newest, count, rest in string.gmatch(text, '(%d+) %d+ (%d+) (%d+)( %d+[ %d]*);') do
    known[#known + 1] = {length = length + 0, newest = newest + 0, count = count + 0, rest = rest}
  end
  if #known == 0 then return 'WRONGTYPE it holds no cells: delete it' end
  for i, rate in ipairs(rates) do
    local from -- those of the same length, else of the greatest
    for _, k in ipairs(known) do
      if not from or from.length ~= rate.length and (k.length == rate.length or k.length > from.length) then from = k end
    end
    changed = changed or from.length ~= rate.length or from.newest > rate.newest
    all[i] = aged(from, rate)
  end
end

-- read returns what is wrong with the key.
local function read(key)
  changed, kept, text = false, true, redis.pcall('GET', key)
  if type(text) == 'table' then text = '' end
  local _, stop, count, rest, sum = 0, 0, 0, ' 0', 0
  for i = 1, #rates do
    if text then
      _, stop, count, rest, sum = find(text, rates[i].pattern, stop + 1)
      if not stop then return reread() end
    end
    local c = all[i]
    c.count, c.sum, c.rest = count + 0, sum + 0, rest
    kept = kept and c.count > 0
  end
  kept = kept and stop == #text -- else a rate that is gone has set the expiry
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
  for i = 1, #rates do
    local c = all[i]
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
  for i = 1, #rates do all[i].count = all[i].count + units end
  changed = true
  return units, 0, 0
end

-- write fails where Redis writes nothing, and so for the first key of all.
local function write(key)
  local lapses, cells = 0, ''
  for i = 1, #rates do
    local c, rate, age = all[i], rates[i], 1
    if c.count == 0 then
      local of = counts(c)
      while of[age] == 0 do age = age + 1 end
      if not of[age] then age = rate.span + rate.newest + 1 end -- that is long ago
    end
    lapses = max(lapses, (rate.newest - age + 1 + rate.span) * rate.length)
    cells = cells .. rate.head .. format('%d', c.count) .. c.rest .. ';'
  end
  if lapses == latest and kept then
    redis.call('SET', key, cells, 'KEEPTTL')
  elseif lapses > 0 then
    redis.call('SET', key, cells, 'PXAT', ceil(lapses / 1000))
  elseif text then
    redis.call('DEL', key)
  end
end

local times, answers, n = {}, {}, 0
for often in string.gmatch(ARGV[#ARGV], '%d+') do times[#times + 1] = often + 0 end
for i, key in ipairs(KEYS) do
  local problem = read(key)
  for _ = 1, times[i] or 1 do
    local units, left, denies = problem, 0, 0
    if not problem then units, left, denies = take() end
    answers[n + 1], answers[n + 2], answers[n + 3] = units, left, denies
    n = n + 3
  end
  if changed then write(key) end
end
return answers
