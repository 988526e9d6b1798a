-- GiveBack returns jobs to the head of their queue, each before the ones before it: active ->
-- pending. Each counts a failure, as it may have been sent.
--
-- KEYS    active, pending, idle
-- ARGV    prefix of the tasks' keys; their Return; of each job its ID and the hand
-- answer  how many: not those that are not in that hand
-- caller  Shard.GiveBack, from a worker that stops, or that has found another one dead
-- repeat  as often as wanted: the hand is given up by the first time
local active, pending, idle, tasks, last = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local clock = redis.call('TIME')
local since = clock[1] .. string.format('%06d', clock[2]) .. '000' -- in ns
local n = 0
redis.call('LLEN', pending) -- a key of another type shows before anything has changed
for i = 3, #ARGV, 2 do
  local id, task = ARGV[i], tasks .. ARGV[i]
  if redis.call('EXISTS', task) == 0 then -- it has ended
    redis.call('LREM', active, -1, id)
  elseif owned(task, ARGV[i + 1]) and redis.call('LREM', active, -1, id) == 1 then -- one without a worker is in any hand once
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
