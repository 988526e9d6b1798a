-- Takes from buckets that differ only in their key. bucket.go has the same arithmetic and the
-- reasons for it.
--
-- KEYS  the buckets: strings, DEBT AT DRAIN BURST WARM
-- ARGV  unit, drain, burst, full, limit, ramp, least, most; the number of takes from each
--       bucket, "" for one
-- Returns for each take: the units, or an error of the key; the time left in µs; 1 if the bucket
-- denies. Times are in µs of this server's clock.

local unit, drain, burst = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
local full, limit, ramp = ARGV[4] + 0, ARGV[5] + 0, ARGV[6] + 0
local least, most = ARGV[7] + 0, ARGV[8] + 0
local max, min, ceil = math.max, math.min, math.ceil
local exact = 2 ^ 53

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local debt, warm, known, changed -- of the current bucket

-- read loads the bucket, or returns an error.
local function read(key)
  debt, warm, changed = 0, 0, false
  known = redis.pcall('GET', key)
  if not known then return end
  local owed, at, drained, covered, heat
  if type(known) == 'string' then owed, at, drained, covered, heat = string.match(known, '^(%d+) (%d+) (%d+) (%d+) (%d+)$') end
  if not owed then return 'WRONGTYPE the key holds no bucket: delete the key' end
  debt, warm, drained, covered = min(owed + 0, exact), heat + 0, drained + 0, covered + 0 -- larger numbers lose precision
  local elapsed = now - at
  if elapsed > 0 then
    local busy = min(elapsed, ceil(debt / drained))
    debt = max(0, debt - busy * drained)
    warm = max(0, min(ramp, warm + busy) - (elapsed - busy))
  end
  changed = elapsed < 0 or covered ~= burst or drained ~= drain
  if covered ~= burst or drained ~= drain then debt = min(full, ceil(debt / covered * burst)) end
  warm = min(warm, ramp)
end

-- take returns the units, the time left, and 1 if the bucket denies.
local function take()
  if most < 0 then
    debt, changed = max(0, debt + most * unit), true
    return 0, 0, 0
  end
  local price = unit
  if ramp > 0 then price = ceil(unit / max(1 / 20, warm / ramp)) end
  local over = debt + min(least * price, limit) - limit
  if over > 0 then return 0, ceil(over / drain), 1 end
  if most == 0 then return 0, 0, 0 end
  local units = max(least, min(most, math.floor((limit - debt) / price)))
  local left = min(debt + units * price, limit) - burst
  debt, changed = debt + units * price, true
  return units, ceil(max(0, left) / drain), 0
end

-- write stores the bucket. If Redis rejects writes, the first write fails, and no bucket changes.
local function write(key)
  local busy = ceil(debt / drain)
  local life = busy + min(ramp, warm + busy)
  if life > 0 then
    redis.call('SET', key, string.format('%d %d %d %d %d', debt, now, drain, burst, warm), 'PXAT', string.format('%d', ceil((now + life) / 1000)))
  elseif known then
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
