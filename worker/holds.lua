-- The operators' pauses, on Redis's clock, and the jobs that they hold.
-- KEYS  hash: SELECTOR -> "END AT {by, reason}", END and AT in Unix ms, END 0 for
--       none; for a while after it was ended, "END AT {by, reason}{ended_by}"
--       set of the SELECTORs that hold jobs
--       sorted set of one SELECTOR's: "QUEUE ID" by acceptance in Unix ms, QUEUE
--       empty when it is not known
--       sorted set of those of them that a worker wakes, by until when (Unix ms)
-- ARGV  op, SELECTOR, then the operation's own
local holds, holding, held, waking = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local op, selector = ARGV[1], ARGV[2]
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)

local function forget() -- the SELECTOR, when it holds nothing more
  if redis.call('EXISTS', held, waking) == 0 then redis.call('SREM', holding, selector) end
  return 1
end

if op == 'keep' then -- ARGV how long at most (ms), acceptance (ms), jobs
  for i = 5, #ARGV do
    redis.call('ZREM', waking, ARGV[i])
    redis.call('ZADD', held, ARGV[4], ARGV[i])
  end
  redis.call('PEXPIRE', held, ARGV[3])
  return redis.call('SADD', holding, selector)
elseif op == 'take' then -- ARGV how long at most (ms), how many, for how long (ms)
  -- those come first that were taken and not woken, then the first accepted
  local jobs = redis.call('ZRANGEBYSCORE', waking, '-inf', now, 'LIMIT', 0, ARGV[4])
  local first = redis.call('ZPOPMIN', held, ARGV[4] - #jobs)
  for i = 1, #first, 2 do jobs[#jobs + 1] = first[i] end
  for _, job in ipairs(jobs) do redis.call('ZADD', waking, now + ARGV[5], job) end
  redis.call('PEXPIRE', waking, ARGV[3])
  forget()
  return jobs
elseif op == 'woken' then -- ARGV jobs
  for i = 3, #ARGV do redis.call('ZREM', waking, ARGV[i]) end
  return forget()
end

local all = redis.call('HGETALL', holds)
for i = 1, #all, 2 do -- what is over goes
  local ends = tonumber(string.match(all[i + 1], '^%d+') or 0)
  if ends ~= 0 and ends <= now then redis.call('HDEL', holds, all[i]) end
end
if op == 'end' then -- ARGV {ended_by}; what is left of it tells the workers who it was
  local value = redis.call('HGET', holds, selector)
  if not value then return 0 end
  local rest = string.match(value, ' .*')
  if not rest then return redis.call('HDEL', holds, selector) end -- it cannot be read
  redis.call('HSET', holds, selector, string.format('%.0f', now) .. rest .. ARGV[3])
  if redis.call('HLEN', holds) == 1 then redis.call('PEXPIRE', holds, 60000) end
  return 1
end

-- begin: ARGV end (ms, 0 for none), {by, reason}, how many there may be
if ARGV[3] ~= '0' and tonumber(ARGV[3]) <= now then return -1 end
if redis.call('HEXISTS', holds, selector) == 0 and redis.call('HLEN', holds) >= tonumber(ARGV[5]) then return -2 end
redis.call('PERSIST', holds)
redis.call('HSET', holds, selector, ARGV[3] .. ' ' .. string.format('%.0f', now) .. ' ' .. ARGV[4])
return 1
