-- Wake makes delayed jobs of a queue due at an instant, if that is earlier: retry -> pending, or a
-- new instant in due. It writes each instant to the record of its notification, as until. It skips
-- parked jobs.
--
-- KEYS    retry, pending, due, idle
-- ARGV    prefix of the tasks' keys, and of the records'; for each job its ID and when to make it due
--         (us)
-- answer  the IDs of the jobs that workers have claimed
-- caller  Shard.WakeAll, for the jobs that the limiter's answer names
-- repeat  as often as wanted: no job becomes due later
local retry, pending, due, idle, tasks, records = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], ARGV[2]
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local function later(id, at) -- reports whether the job is due at that instant or earlier
  local told = tonumber(redis.call('ZSCORE', due, id) or redis.call('ZSCORE', retry, id) * 1000000)
  if told <= at then return true end
  redis.call('ZADD', due, string.format('%.0f', at), id)
  redis.call('ZADD', retry, math.ceil(at / 1000000), id)
  if at < now + soon then wake(idle) end
  return true
end
local function atOnce(key, id)
  redis.call('ZREM', retry, id)
  local full = redis.pcall('RPUSH', pending, id) -- to the head, as the job has waited for its slot
  if type(full) == 'table' then -- pending is not a list
    redis.call('ZADD', retry, 0, id)
    return false
  end
  redis.pcall('ZREM', due, id)
  redis.pcall('HSET', key, 'state', 'pending', 'pending_since', string.format('%.0f000', now))
  wake(idle)
  return true
end

local held = {}
for i = 3, #ARGV, 2 do
  local id, at = ARGV[i], tonumber(ARGV[i + 1])
  local key, delayed = tasks .. id, redis.call('ZSCORE', retry, id)
  if not delayed then
    if redis.pcall('HGET', key, 'state') == 'active' then held[#held + 1] = id end
  elseif redis.pcall('HEXISTS', key, 'parked') ~= 1 then
    local comes
    if at > now then comes = later(id, at) else comes = atOnce(key, id) end
    if comes and redis.pcall('HEXISTS', records .. id, 'until') == 1 then
      redis.call('HSET', records .. id, 'until', math.floor(at / 1000))
    end
  end
end
return held
