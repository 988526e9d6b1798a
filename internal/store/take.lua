-- Take takes waiting jobs off their queues, ends their notifications and writes a note for each:
-- pending, scheduled, retry -> ended. It skips a job that is claimed, or that changed after the
-- caller read it and its record.
--
-- KEYS    notes, due, counts, letters; for each queue pending, scheduled, retry, archived and due;
--         for each notification the record and the task; if ends are reported, the prefix of their
--         streams
-- ARGV    now, retention and grace (ms); the numbers of queues and notifications; the number of
--         values of each notification, then these: ID, the number of its queue, SHA-1 of asynq's
--         message, the record's outcomes, how many notifications joined it, note, then an end
-- answer  for each notification 1 if it is taken, by this call or an earlier one with an answer that was
--         lost; 0 if it is skipped; 2 if the caller has to ask again, so that this call does not take
--         too long; or the error of its own keys, after which the others are still taken
-- caller  Shard.TakeAll, to cancel, mute or collapse
-- repeat  as often as wanted: it recognizes its own notes
local notes, due, counts, letters = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now, retention, grace, queues, n, width = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local lists_of = 5 -- each queue's number of keys
local first = 4 + lists_of * queues
local streams = KEYS[first + 2 * n + 1]
local lists = {pending = 1, scheduled = 2, retry = 3, archived = 4}
redis.call('HDEL', notes, '') -- a Redis that is out of memory runs a script if its first write deletes
local clock = redis.call('TIME')
local grace_ends = string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000) + grace)

-- If a pending job is among the NEAR oldest of its list, the search for it begins at the old end,
-- otherwise at the new end. Searches from the new end read about SEARCHED entries in one call.
local NEAR, SEARCHED = 1000, 200000
local searched = 0

local function take(i)
  local record, task, place = KEYS[first + 2 * i - 1], KEYS[first + 2 * i], 6 + width * (i - 1)
  local id, queue, message, outcomes, told, note = unpack(ARGV, place + 1, place + 6)
  if redis.call('HGET', notes, id) == note then return 1 end -- repeated after a lost reply
  redis.call('ZSCORE', due, id) -- fail before any change if the key has the wrong type
  local job = redis.call('HMGET', task, 'state', 'msg')
  local known = redis.call('HMGET', record, 'state', 'outcomes', 'told')
  if known[1] ~= 'waiting' or (known[2] or '') ~= outcomes or (known[3] or '0') ~= told then return 0 end
  local list = lists[job[1]]
  if not list or not job[2] or redis.sha1hex(job[2]) ~= message then return 0 end
  local before = 4 + lists_of * (queue - 1)
  list = KEYS[before + list]
  local pending, from = job[1] == 'pending', 1
  if pending then
    if redis.call('LPOS', list, id, 'RANK', -1, 'MAXLEN', NEAR) then from = -1
    elseif searched > SEARCHED then return 2
    else searched = searched + redis.call('LLEN', list) end
  else redis.call('ZCARD', list) end
  settle(record, counts, letters, streams, id, now, retention, place + 6)
  if pending then redis.call('LREM', list, from, id) else
    redis.call('ZREM', list, id)
    redis.pcall('ZREM', KEYS[before + lists_of], id)
  end
  redis.call('DEL', task)
  redis.call('HSET', notes, id, note)
  redis.call('ZADD', due, grace_ends, id)
  return 1
end

local answers = {}
for i = 1, n do
  local done, answer = pcall(take, i)
  if not done and type(answer) == 'table' then answer = answer.err end
  answers[i] = done and answer or tostring(answer)
end
return answers
