-- PutOff returns a job to its queue for later: active -> retry.
--
-- KEYS    the task, active, retry, due
-- ARGV    ID; the hand; after how long it is due (us); its Return; 1 for a failure
-- answer  1, or 0 where the job is not in that hand
-- caller  Shard.PutOff, after a visit
-- repeat  as often as wanted: the hand is given up by the first time
local task, active, retry, delayed = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, hand, after, last, failed = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if not owned(task, hand) then return 0 end
redis.call('ZCARD', retry) -- a key of another type shows before anything has changed
redis.call('ZCARD', delayed)
redis.call('LLEN', active)
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local due = now + after
redis.call('ZADD', retry, math.ceil(due / 1000000), id)
redis.call('ZADD', delayed, string.format('%.0f', due), id)
redis.pcall('HSET', task, 'state', 'retry', 'last', last, 'back', string.format('%.0f', now))
if failed == '1' then redis.pcall('HINCRBY', task, 'failed', 1) end
redis.call('LREM', active, -1, id)
redis.pcall('HDEL', task, 'worker')
return 1
