-- Accept creates jobs of a queue and their records: - -> pending, - -> scheduled. It creates all of
-- them or none: the commands that Redis may refuse come first.
--
-- KEYS    pending, scheduled, idle, counts, due; for each job the task and the record
-- ARGV    the queue; for each job asynq's message, its ID, now (ns), when it is due (us), 0 for now,
--         how many facts, and the facts
-- answer  for each job 1 if it is new, or if the same call has created it before; else
--         the state of the existing record, and 1 if that record has other content
-- caller  Acceptor, for producers
-- repeat  as often as wanted: an ID is accepted once
--
-- ofAnotherContent returns 1 if the record's content differs from of, and 0 if it is equal or
-- unknown.
local function ofAnotherContent(record, of)
  local known = redis.call('HGET', record, 'of')
  if not known or known == of or string.match(known, '^[^\n]*\n[^\n]*\n[^\n]*\n$') then return 0 end
  return 1
end
local replies, new, jobs, ids, later, dues, exact, near, at = {}, {}, {}, {}, {}, {}, {}, 0, 2
local function known(task, record, message, of)
  if new[record] then return {'waiting', new[record] == of and 0 or 1} end
  local state = redis.pcall('HGET', record, 'state')
  if type(state) == 'table' then return state end
  if not state then return redis.error_reply('ERR another task has the ID on the queue') end
  if redis.call('HGET', task, 'msg') == message then return 1 end -- repeated after a lost reply
  return {state, ofAnotherContent(record, of)}
end
for k = 6, #KEYS, 2 do
  local task, record = KEYS[k], KEYS[k + 1]
  local id, due, last = ARGV[at + 1], ARGV[at + 3], at + 4 + ARGV[at + 4]
  if new[record] or redis.call('EXISTS', task, record) > 0 then
    replies[#replies + 1] = known(task, record, ARGV[at], ARGV[at + 6])
  else
    replies[#replies + 1], new[record], jobs[#jobs + 1] = 1, ARGV[at + 6], {k, at, last}
    if due == '0' then
      ids[#ids + 1] = id
    else
      later[#later + 1], dues[#dues + 1], dues[#dues + 2] = id, math.ceil(due / 1000000), id
      exact[#exact + 1], exact[#exact + 2] = due, id
      if due - ARGV[at + 2] / 1000 < soon then near = near + 1 end
    end
  end
  at = last + 1
end
if #jobs == 0 then return replies end
local done = {} -- commands that undo the writes so far
local function refused(back, ...)
  local reply = redis.pcall(...)
  if type(reply) ~= 'table' then done[#done + 1] = back return end
  for i = 1, #done do redis.call(unpack(done[i])) end
  return reply
end
local problem = #ids > 0 and refused({'LPOP', KEYS[1], #ids}, 'LPUSH', KEYS[1], unpack(ids))
  or #later > 0 and refused({'ZREM', KEYS[2], unpack(later)}, 'ZADD', KEYS[2], unpack(dues))
  or #later > 0 and refused({'ZREM', KEYS[5], unpack(later)}, 'ZADD', KEYS[5], unpack(exact))
  or refused({}, 'HINCRBY', KEYS[4], 'accepted', #jobs)
if problem then return problem end
for i = 1, #jobs do
  local k, at, last = unpack(jobs[i])
  local instant = ARGV[at + 2]
  redis.call('HSET', KEYS[k + 1], 'state', 'waiting', 'queue', ARGV[1], 'accepted', string.sub(instant, 1, -7), unpack(ARGV, at + 5, last))
  addWaiting(KEYS[k + 1], ARGV[at + 1], ARGV[at + 6])
  if ARGV[at + 3] == '0' then
    redis.call('HSET', KEYS[k], 'msg', ARGV[at], 'state', 'pending', 'pending_since', instant)
  else
    redis.call('HSET', KEYS[k], 'msg', ARGV[at], 'state', 'scheduled')
  end
end
if #ids + near > 0 then wake(KEYS[3]) end
return replies
