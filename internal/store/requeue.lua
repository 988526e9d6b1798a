-- Requeue puts a dead letter's notification back on its queue, and deletes the letter: dead letter
-- -> pending. It does nothing while a worker has claimed the job of the last attempt. If that job
-- is still on a queue, because its worker died before ending it, the new job replaces it. A job
-- with a malformed letter's ID belongs to another notification. The writes that Redis may refuse
-- come first, so that a refusal changes nothing.
--
-- KEYS    the record, counts, letters; the task, pending, scheduled, retry, archived; idle
-- ARGV    ID; the letter as it is stored, its state and queue; asynq's message; now (ns); then the
--         facts and the first outcomes
-- answer  requeued; none if the letter is gone, or the notification's state has changed since;
--         "in hand" if a worker has claimed the last job, or a malformed letter's ID has a job
-- caller  Shard.Requeue, for operators
-- repeat  as often as wanted: it recognizes its own message
local record, counts, letters, task, pending = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local id, letter, state = ARGV[1], ARGV[2], ARGV[3]
local job = redis.call('HMGET', task, 'state', 'msg')
if redis.call('HGET', letters, id) ~= letter then
  return job[2] == ARGV[5] and 'requeued' or 'none' -- requeued: repeated after a lost reply
end
local malformed, known = state == 'malformed', false
if job[1] == 'active' or malformed and job[2] then return 'in hand' end
if not malformed then known = redis.call('HGET', record, 'state') end
if known and known ~= state then -- the notification waits, or has ended again
  forgetLetter(letters, counts, id)
  return 'none'
end
for set = 6, 8 do redis.call('ZREM', KEYS[set], id) end
if job[1] then redis.call('LREM', pending, 0, id) end
redis.call('HINCRBY', counts, state, -1)
local full = redis.pcall('LPUSH', pending, id)
if type(full) == 'table' then
  redis.call('HINCRBY', counts, state, 1)
  return full
end
redis.call('DEL', task) -- drop the fields of its earlier attempts
redis.call('HSET', task, 'msg', ARGV[5], 'state', 'pending', 'pending_since', ARGV[6])
if not malformed then -- an expired record is made anew
  redis.call('HDEL', record, 'ended', 'attempts', 'excused', 'first', 'outcomes', 'sent', 'error')
  redis.call('HSET', record, 'state', 'waiting', 'queue', ARGV[4], unpack(ARGV, 7))
  redis.call('HSETNX', record, 'accepted', string.sub(ARGV[6], 1, -7))
  redis.call('PERSIST', record)
  addWaiting(record, id, redis.call('HGET', record, 'of'))
end
forgetLetter(letters, counts, id)
wake(KEYS[9])
return 'requeued'
