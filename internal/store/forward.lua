-- Forward moves the delayed jobs of queues that are due: scheduled, retry -> pending. Pull
-- moves our own jobs; Forward moves those that other clients of asynq's have delayed, and ours
-- where no worker pulls. A parked job stays, and is parked for longer.
--
-- KEYS    of each queue scheduled, retry, pending, due, the idle, parked: as the sets of parked
--         jobs begin
-- ARGV    for how long (s) a parked job stays by itself; of each queue the prefix of the tasks'
--         keys
-- answer  how many
-- caller  Shard.Forward, once a second
-- repeat  as often as wanted
local clock = redis.call('TIME')
local now, moved = clock[1] * 1000000 + clock[2], 0
local since = clock[1] .. string.format('%06d', clock[2]) .. '000' -- in ns

local function stays(task, parked, retry, id) -- whether it is parked, which it is for longer then
  local as = redis.pcall('HGET', task, 'parked')
  local at = type(as) == 'string' and string.find(as, '\n', 1, true)
  if not at or type(redis.pcall('ZSCORE', parked .. string.sub(as, 1, at - 1), string.sub(as, at + 1))) ~= 'string' then return false end
  redis.call('ZADD', retry, clock[1] + ARGV[1], id)
  return true
end

-- forward moves what is due of a queue. Our own jobs, which have their instants in due, have waited
-- for their turn.
local function forward(q)
  local scheduled, retry, pending, delayed, idle, parked = unpack(KEYS, 6 * q - 5, 6 * q)
  local tasks, n = ARGV[1 + q], 0
  redis.call('ZCARD', delayed) -- a key of another type shows before anything has changed
  redis.call('LLEN', pending)
  for _, set in ipairs({scheduled, retry}) do
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', set, '-inf', clock[1], 'LIMIT', 0, 100)) do
      if set ~= retry or not stays(tasks .. id, parked, retry, id) then
        redis.call(redis.call('ZREM', delayed, id) == 1 and 'RPUSH' or 'LPUSH', pending, id)
        redis.call('ZREM', set, id)
        redis.pcall('HSET', tasks .. id, 'state', 'pending', 'pending_since', since)
        n = n + 1
      end
    end
  end
  for _ = 1, n do
    if not wake(idle) then break end
  end
  moved = moved + n
end

local problem
for q = 1, #KEYS / 6 do
  local whole, its = pcall(forward, q) -- a queue that has a key of another type stops no other
  if not whole then problem = type(its) == 'table' and its or redis.error_reply(tostring(its)) end
end
return problem or moved
