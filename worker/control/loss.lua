-- Loss records the data that Redis has lost, until an operator confirms it.
--
--   at                           time of the latest part's note (ms), the record's identity
--   notifications:PROCESS, pauses:PROCESS, overrides:PROCESS
--                                the counts by each process: all notice the same loss, so the highest is right
--
-- KEYS    the losses
-- ARGV    note, the process, and by pairs kind and count;
--         confirm, the at that the operator saw
-- answer  of confirm 1, or 0 if the at is another, then the names and values; nothing if none is recorded
-- repeat  note no: it would count twice; confirm yes, but the repeat finds none
local key = KEYS[1]
local all, flat = {}, redis.call('HGETALL', key)
for i = 1, #flat, 2 do all[flat[i]] = flat[i + 1] end
local at = tonumber(all.at)
local function text(n) return string.format('%.0f', n) end

if ARGV[1] == 'confirm' then
  if not at then return {} end
  if text(at) ~= ARGV[2] then return {0, unpack(flat)} end
  redis.call('DEL', key)
  return {1, unpack(flat)}
end

-- highest returns the count of a kind.
local function highest(kind)
  local most = 0
  for name, n in pairs(all) do
    if string.find(name, kind .. ':', 1, true) == 1 then most = math.max(most, tonumber(n)) end
  end
  return most
end

local changed = not at
for i = 3, #ARGV, 2 do
  local kind, n = ARGV[i], tonumber(ARGV[i + 1])
  if n > 0 and redis.call('HINCRBY', key, kind .. ':' .. ARGV[2], n) > highest(kind) then changed = true end
end
if changed then
  local clock = redis.call('TIME')
  redis.call('HSET', key, 'at', text(math.max(clock[1] * 1000 + math.floor(clock[2] / 1000), (at or 0) + 1)))
end
return 1
