-- The pauses, on Redis's clock.
-- KEYS  hash: APP/PLATFORM -> "END LEVEL REASON", END in Unix ms, 0 for none
--       hash of the operators' pauses, set of those that hold jobs: see holds.lua
-- ARGV  nothing, to list all three; or field, length (ms, 0 for no end), level,
--       reason, to begin a provider's
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
if not ARGV[1] then
  return {now, redis.call('HGETALL', KEYS[1]), redis.call('HGETALL', KEYS[2]), redis.call('SMEMBERS', KEYS[3])}
end

local length, ends = tonumber(ARGV[2]), 0
if length > 0 then ends = now + length end
local old = redis.call('HGET', KEYS[1], ARGV[1])
if old then -- the longer one stands
  local stands = tonumber(string.match(old, '^%d+'))
  if stands == 0 or ends ~= 0 and stands >= ends then return 0 end
end
local lives = redis.call('PTTL', KEYS[1])
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', ends) .. ' ' .. ARGV[3] .. ' ' .. ARGV[4])
if ends == 0 then
  redis.call('PERSIST', KEYS[1])
elseif lives ~= -1 and lives < length then -- all of it ends with the last pause
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
