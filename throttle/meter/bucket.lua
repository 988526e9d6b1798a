-- A take of a bucket. bucket.go is the same arithmetic, and says why.
--
-- KEYS  the bucket: a string, DEBT AT WARM SLOWED DRAIN BURST
-- ARGV  unit, drain, burst, full, limit, ramp, 1 to slow it, least, most
-- Returns the units, what is left in µs, and 1 where it denies. Instants are in µs of this server's clock.

local unit, drain, burst = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
local full, limit, ramp = ARGV[4] + 0, ARGV[5] + 0, ARGV[6] + 0
local slow, least, most = ARGV[7] + 0, ARGV[8] + 0, ARGV[9] + 0
local max, min, ceil = math.max, math.min, math.ceil
local slowedfor = 1000000

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local debt, warm, slowed, changed = 0, 0, 0, false

local known = redis.pcall('GET', KEYS[1])
if known then
  local owed, at, warmed, last, drained, covered
  if type(known) == 'string' then
    owed, at, warmed, last, drained, covered = string.match(known, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  end
  if not owed then return redis.error_reply('WRONGTYPE it holds no bucket: delete it') end
  debt, warm, slowed, drained, covered = owed + 0, warmed + 0, last + 0, drained + 0, covered + 0
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
if slow > 0 and math.abs(now - slowed) >= slowedfor then
  warm, slowed, changed = math.floor(warm / 2), now, true
end

local units, left, denies = 0, 0, 0
if most < 0 then
  debt, changed = max(0, debt + most * unit), true
else
  local price = unit
  if ramp > 0 then price = ceil(unit / max(1 / 20, warm / ramp)) end
  local over = debt + min(least * price, limit) - limit
  if over > 0 then
    left, denies = over, 1
  elseif most > 0 then
    units = max(least, min(most, math.floor((limit - debt) / price)))
    left = min(debt + units * price, limit) - burst
    debt, changed = debt + units * price, true
  end
end

if changed then
  local busy = ceil(debt / drain)
  local life = max(busy + min(ramp, warm + busy), slowed + slowedfor - now)
  if life > 0 then
    redis.call('SET', KEYS[1], string.format('%d %d %d %d %d %d', debt, now, warm, slowed, drain, burst),
      'PXAT', ceil((now + life) / 1000))
  elseif known then
    redis.call('DEL', KEYS[1])
  end
end
return {units, ceil(max(0, left) / drain), denies}
