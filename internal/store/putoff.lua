-- PutOff returns a job to its queue for later: active -> retry, or active -> parked until the name
-- has room or the job's time is up. In the same step it records the deferral by a limit or the
-- failed attempt. If the notification has ended meanwhile, the job is due at once with one more
-- failure, so that the next worker reads the record.
--
-- KEYS    the task, active, retry, due, the record, counts, the names with parked jobs,
--         parked: as the prefix of their sets
-- ARGV    ID; the claim; after how long it is due (us); its Return; 1 for a failure; the name to park
--         it by, '' for none; until when a limit has deferred it (ms), '' for none, and the scope
--         and rule; the number of the attempt, '' for none, its outcomes, the providers' IDs, its
--         error, and how many attempts were excused
-- answer  1; 0 if the job is not in that claim; or an error of the record or the counts, and the job
--         stays claimed
-- caller  Shard.PutOff, after processing
-- repeat  as often as wanted: the first call gives up the claim
local task, active, retry, delayed, record, counts = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local names, parkedOf = KEYS[7], KEYS[8]
local id, claim, after, last, failed, name = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local slot, scope, rule, attempt, outcomes, sent, problem, excused = unpack(ARGV, 7, 14)
if not owned(task, claim) then return 0 end
-- A Redis that is out of memory runs a script to its end if its first write is a deletion. An
-- attempt must be recorded even then.
if attempt ~= '' then redis.pcall('HDEL', record, '') end
redis.call('ZCARD', retry) -- fail before any change if a key has the wrong type
redis.call('ZCARD', delayed)
redis.call('LLEN', active)
redis.call('SCARD', names)
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local function note()
  local state = redis.call('HGET', record, 'state')
  if state and state ~= 'waiting' then
    after, failed, name = 0, '1', ''
    return
  end
  accepted(record, counts, math.floor(now / 1000))
  if attempt ~= '' then
    redis.call('HSETNX', record, 'first', string.format('%.0f', math.floor(now / 1000)))
    redis.call('HSET', record, 'attempts', attempt, 'outcomes', outcomes, 'sent', sent, 'error', problem)
    if excused ~= '0' then redis.call('HSET', record, 'excused', excused) end
  end
  local before = redis.call('HGET', record, 'until')
  if slot ~= '' and slot ~= before then
    if not before then redis.call('HINCRBY', counts, 'booked', 1) end
    redis.call('HINCRBY', counts, 'deferred', 1)
    redis.call('HINCRBY', record, 'deferrals', 1)
    redis.call('HSET', record, 'until', slot, 'scope', scope, 'rule', rule)
  end
end
if slot ~= '' or attempt ~= '' then
  local noted, why = pcall(note)
  if not noted then return type(why) == 'table' and why.err or tostring(why) end
end

local function delay(us)
  redis.call('ZADD', retry, math.ceil((now + us) / 1000000), id)
  redis.call('ZADD', delayed, string.format('%.0f', now + us), id)
end
delay(after)
redis.pcall('HSET', task, 'state', 'retry', 'last', last, 'back', string.format('%.0f', now))
if name ~= '' then
  local since = redis.pcall('HGET', task, 'pending_since')
  local place = (type(since) == 'string' and since or string.format('%.0f000', now)) .. ' ' .. id
  if parkAs(parkedOf, names, name, place) then redis.pcall('HSET', task, 'parked', parkedAs(name, place))
  else delay(2000000) end -- without an entry in parked, only its due time returns it
end
if failed == '1' then redis.pcall('HINCRBY', task, 'failed', 1) end
redis.call('LREM', active, -1, id)
redis.pcall('HDEL', task, 'worker')
return 1
