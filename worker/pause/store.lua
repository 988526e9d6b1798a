-- What keeps notifications on the queue, on Redis's clock, in ms since 1970.
-- KEYS  1 hash of the providers' pauses: APP/PLATFORM or APP/PLATFORM/CREDENTIAL ->
--         "END LEVEL CLAIM REASON ERROR", END 0 for none, CLAIM the host that alone
--         says so, or *
--       2 hash of the operators': SELECTOR -> "END AT {by, reason}", END 0 for none;
--         for a while after it was ended, "END AT {by, reason}{ended_by}"
--       3 hash: APP/PLATFORM -> "AT BY", when an operator had it tried again last
--       4 set of the SELECTORs that keep jobs
--       5 sorted set of one SELECTOR's: "QUEUE ID" by acceptance, QUEUE empty when it
--         is not known
--       6 sorted set of those of them that a worker wakes, by until when
-- ARGV  op, then the operation's own
local providers, operators, tried, keeping, jobs, waking = unpack(KEYS)
local op = ARGV[1]
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local told = 60000 -- every worker knows by then

if op == 'read' then
  return {now, redis.call('HGETALL', providers), redis.call('HGETALL', operators), redis.call('HGETALL', tried), redis.call('SMEMBERS', keeping)}
elseif op == 'try' then -- ARGV by, APP/PLATFORM...
  for i = 3, #ARGV do
    for _, field in ipairs(redis.call('HKEYS', providers)) do
      if field == ARGV[i] or string.sub(field, 1, #ARGV[i] + 1) == ARGV[i] .. '/' then redis.call('HDEL', providers, field) end
    end
    redis.call('HSET', tried, ARGV[i], string.format('%.0f', now) .. ' ' .. ARGV[2])
  end
  return redis.call('PEXPIRE', tried, told)
elseif op == 'share' then -- ARGV field, length (0 for no end), level, claim, reason, error
  -- what a worker says is borne out by another host until so long after its end
  local memory = 300000
  local field, length, level, claim = ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
  local ends = 0
  if length > 0 then ends = now + length end
  local old = redis.call('HGET', providers, field)
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
  local lives, life = redis.call('PTTL', providers), length
  if claim ~= '*' then life = length + memory end
  redis.call('HSET', providers, field, string.format('%.0f', ends) .. ' ' .. level .. ' ' .. claim .. ' ' .. ARGV[6] .. ' ' .. ARGV[7])
  if ends == 0 then
    redis.call('PERSIST', providers)
  elseif lives ~= -1 and lives < life then -- all of it ends with the last pause
    redis.call('PEXPIRE', providers, life)
  end
  return claim == '*' and 1 or 2
end

local selector = ARGV[2]
local function forget() -- the SELECTOR, when it keeps nothing more
  if redis.call('EXISTS', jobs, waking) == 0 then redis.call('SREM', keeping, selector) end
  return 1
end
if op == 'add' then -- ARGV how long at most, acceptance, jobs
  for i = 5, #ARGV do
    redis.call('ZREM', waking, ARGV[i])
    redis.call('ZADD', jobs, ARGV[4], ARGV[i])
  end
  redis.call('PEXPIRE', jobs, ARGV[3])
  return redis.call('SADD', keeping, selector)
elseif op == 'pop' then -- ARGV how long at most, how many, for how long
  -- those come first that were popped and not woken, then the first accepted
  local popped = redis.call('ZRANGEBYSCORE', waking, '-inf', now, 'LIMIT', 0, ARGV[4])
  local first = redis.call('ZPOPMIN', jobs, ARGV[4] - #popped)
  for i = 1, #first, 2 do popped[#popped + 1] = first[i] end
  for _, job in ipairs(popped) do redis.call('ZADD', waking, now + ARGV[5], job) end
  redis.call('PEXPIRE', waking, ARGV[3])
  forget()
  return popped
elseif op == 'woken' then -- ARGV jobs
  for i = 3, #ARGV do redis.call('ZREM', waking, ARGV[i]) end
  return forget()
end

local all = redis.call('HGETALL', operators)
for i = 1, #all, 2 do -- what is over goes
  local ends = tonumber(string.match(all[i + 1], '^%d+') or 0)
  if ends ~= 0 and ends <= now then redis.call('HDEL', operators, all[i]) end
end
if op == 'end' then -- ARGV {ended_by}; what is left of it tells the workers who it was
  local value = redis.call('HGET', operators, selector)
  if not value then return 0 end
  local rest = string.match(value, ' .*')
  if not rest then return redis.call('HDEL', operators, selector) end -- it cannot be read
  redis.call('HSET', operators, selector, string.format('%.0f', now) .. rest .. ARGV[3])
  if redis.call('HLEN', operators) == 1 then redis.call('PEXPIRE', operators, told) end
  return 1
end

-- begin: ARGV end (0 for none), {by, reason}, how many there may be
if ARGV[3] ~= '0' and tonumber(ARGV[3]) <= now then return -1 end
if redis.call('HEXISTS', operators, selector) == 0 and redis.call('HLEN', operators) >= tonumber(ARGV[5]) then return -2 end
redis.call('PERSIST', operators)
redis.call('HSET', operators, selector, ARGV[3] .. ' ' .. string.format('%.0f', now) .. ' ' .. ARGV[4])
return 1
