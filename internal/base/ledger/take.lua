-- Takes a job from asynq's queue, unless it is in hand or was changed since it and its record
-- were looked at, ends its notification, and leaves a note. It returns 1, also when it has
-- done so before, or 0 where it does nothing. Of the jobs that are due the newest is found at
-- once: whoever takes many begins with that.
--
-- KEYS  notes, due; record, counts, letters; asynq's task, pending, scheduled, retry,
-- archived; if ends are reported, the prefix of their streams
-- ARGV  ID, now (ms), retention (ms), grace (ms), asynq's message, the record's outcomes,
-- note, then an end
local notes, due, record, task = KEYS[1], KEYS[2], KEYS[3], KEYS[6]
local id = ARGV[1]
redis.call('HDEL', record, '') -- a Redis that is out of memory refuses a script that grows something first
if redis.call('HGET', notes, id) == ARGV[7] then return 1 end -- a reply was lost
redis.call('ZSCORE', due, id) -- a key of another type shows before anything has changed
local job = redis.call('HMGET', task, 'state', 'msg')
local known = redis.call('HMGET', record, 'state', 'outcomes', 'carries')
if job[2] ~= ARGV[5] or known[1] ~= 'waiting' or (known[2] or '') ~= ARGV[6] or known[3] then return 0 end
local lists = {pending = KEYS[7], scheduled = KEYS[8], retry = KEYS[9], archived = KEYS[10]}
local list = lists[job[1]]
if not list then return 0 end
if job[1] == 'pending' then redis.call('LLEN', list) else redis.call('ZCARD', list) end
settle(record, KEYS[4], KEYS[5], KEYS[11], id, tonumber(ARGV[2]), tonumber(ARGV[3]), 7)
if job[1] == 'pending' then redis.call('LREM', list, 1, id) else redis.call('ZREM', list, id) end
redis.call('DEL', task)
redis.call('HSET', notes, id, ARGV[7])
local clock = redis.call('TIME')
redis.call('ZADD', due, string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000) + ARGV[4]), id)
return 1
