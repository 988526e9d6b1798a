-- Loss records the data that Redis has lost, until an operator confirms it.
--
--   at                                 when workers noticed its latest part (ms); it names what is recorded
--   notifications:PROCESS and so on    the counts by each process: all notice the same loss, so the highest is right
--   confirmed, confirmed:notifications and so on   the at of the latest confirmed loss, and of the latest with that kind
--
-- KEYS    the losses
-- ARGV    note, the process, for how long it has not read the data whole (ms), and by pairs kind and count;
--         confirm, the at that the operator saw, for how long it is kept that it is confirmed (ms)
-- answer  of confirm whether it is confirmed (1 or 0), then the names and values; nothing if none is recorded
-- repeat  note no: it would count twice; confirm yes
local key = KEYS[1]
local all, flat = {}, redis.call('HGETALL', key)
for i = 1, #flat, 2 do all[flat[i]] = flat[i + 1] end
local at = tonumber(all.at)

-- highest returns the count of a kind.
local function highest(kind)
  local most = 0
  for name, n in pairs(all) do
    if string.find(name, kind .. ':', 1, true) == 1 then most = math.max(most, tonumber(n)) end
  end
  return most
end

local function text(n) return string.format('%.0f', n) end

if ARGV[1] == 'confirm' then
  if not at then return {} end
  if text(at) ~= ARGV[2] then return {0, unpack(flat)} end
  for _, kind in ipairs({'notifications', 'pauses', 'overrides'}) do
    if highest(kind) > 0 then redis.call('HSET', key, 'confirmed:' .. kind, text(at)) end
  end
  for name in pairs(all) do
    if string.find(name, 'confirmed', 1, true) ~= 1 then redis.call('HDEL', key, name) end
  end
  redis.call('HSET', key, 'confirmed', text(at))
  redis.call('PEXPIRE', key, ARGV[3])
  return {1, unpack(flat)}
end

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local whole = now - ARGV[3] -- a loss that was confirmed after this instant is the same one
local function isConfirmed(name) return tonumber(all[name] or 0) >= whole end
local changed, counted, open = not at or at < whole, false, false
for i = 4, #ARGV, 2 do
  local kind, n = ARGV[i], tonumber(ARGV[i + 1])
  if n > 0 then
    counted = true
    if not isConfirmed('confirmed:' .. kind) then
      open, n = true, redis.call('HINCRBY', key, kind .. ':' .. ARGV[2], n)
      changed = changed or n > highest(kind)
    end
  end
end
if not counted then open = not isConfirmed('confirmed') end
if not open then return 0 end
if changed then redis.call('HSET', key, 'at', text(math.max(now, (at or 0) + 1))) end
redis.call('PERSIST', key)
return 1
