-- GiveBack returns jobs to the head of their queue, the last of them first: active -> pending. It
-- adds a failure to each job, as the job may have been sent.
--
-- KEYS    active, pending, idle
-- ARGV    prefix of the tasks' keys; their Return; for each job its ID and the claim
-- answer  the number of returned jobs, without jobs in another claim
-- caller  Shard.GiveBack, from a worker that stops, or that has found another worker dead
-- repeat  as often as wanted: the first call gives up the claim
local active, pending, idle, tasks, last = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local clock = redis.call('TIME')
local since = clock[1] .. string.format('%06d', clock[2]) .. '000' -- in ns
local n = 0
redis.call('LLEN', pending) -- fail before any change if the key has the wrong type
for i = 3, #ARGV, 2 do
  local id, task = ARGV[i], tasks .. ARGV[i]
  if redis.call('EXISTS', task) == 0 then -- the job has ended
    redis.call('LREM', active, -1, id)
  elseif owned(task, ARGV[i + 1]) and redis.call('LREM', active, -1, id) == 1 then -- LREM decides for a key of the wrong type, which every claim holds
    redis.call('RPUSH', pending, id)
    redis.pcall('HSET', task, 'state', 'pending', 'last', last)
    redis.pcall('HSETNX', task, 'pending_since', since)
    redis.pcall('HINCRBY', task, 'failed', 1)
    redis.pcall('HDEL', task, 'worker')
    n = n + 1
  end
end
if n > 0 then wake(idle) end
return n
