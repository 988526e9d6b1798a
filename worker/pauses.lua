-- The pauses, on Redis's clock.
-- KEYS  hash: APP/PLATFORM or APP/PLATFORM/CREDENTIAL -> "END LEVEL CLAIM REASON
--       ERROR", END in Unix ms, 0 for none, CLAIM the host that alone says so, or *
--       hash of the operators' pauses, set of those that hold jobs: see holds.lua
--       hash: APP/PLATFORM -> "AT BY", when an operator had it tried again last
-- ARGV  nothing, to list all four;
--       begin, field, length (ms, 0 for no end), level, claim, reason, error;
--       or resume, by, APP/PLATFORM...
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
if not ARGV[1] then
  return {now, redis.call('HGETALL', KEYS[1]), redis.call('HGETALL', KEYS[2]), redis.call('SMEMBERS', KEYS[3]), redis.call('HGETALL', KEYS[4])}
end

if ARGV[1] == 'resume' then
  for i = 3, #ARGV do
    for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
      if field == ARGV[i] or string.sub(field, 1, #ARGV[i] + 1) == ARGV[i] .. '/' then redis.call('HDEL', KEYS[1], field) end
    end
    redis.call('HSET', KEYS[4], ARGV[i], string.format('%.0f', now) .. ' ' .. ARGV[2])
  end
  redis.call('PEXPIRE', KEYS[4], 60000) -- every worker knows by then
  return #ARGV - 2
end

-- what a worker says is borne out by another host until so long after its end
local memory = 300000
local field, length, level, claim = ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
local ends = 0
if length > 0 then ends = now + length end
local old = redis.call('HGET', KEYS[1], field)
if old then
  local stands, _, claimed = string.match(old, '^(%d+) (%d+) (%S+)')
  stands = tonumber(stands) or -1
  local lasts = stands == 0 or stands > now
  if claimed == '*' then
    if lasts and (stands == 0 or ends ~= 0 and stands >= ends) then return 0 end -- the longer one stands
    if lasts then claim = '*' end
  elseif claimed and claimed ~= claim and stands + memory > now then
    claim = '*'
  end
end
local lives, life = redis.call('PTTL', KEYS[1]), length
if claim ~= '*' then life = length + memory end
redis.call('HSET', KEYS[1], field, string.format('%.0f', ends) .. ' ' .. level .. ' ' .. claim .. ' ' .. ARGV[6] .. ' ' .. ARGV[7])
if ends == 0 then
  redis.call('PERSIST', KEYS[1])
elseif lives ~= -1 and lives < life then -- all of it ends with the last pause
  redis.call('PEXPIRE', KEYS[1], life)
end
return claim == '*' and 1 or 2
