-- One step of a notification's record, with the sums it changes.
-- KEYS  record, counts, letters; for a settle where ends are told of, their stream
-- ARGV  op, ID, now (ms), retention (ms), then the operation's own
local record, counts, letters = KEYS[1], KEYS[2], KEYS[3]
local op, id, now, retention = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
-- What has happened is noted by a Redis that is out of memory too: it refuses a
-- script that grows something first, and not one that deletes first.
if op == 'settle' or op == 'attempt' then redis.call('HDEL', record, '') end
local state = redis.call('HGET', record, 'state')
local open = not state or state == 'waiting' or state == 'accepting'

local function count(name, n) redis.call('HINCRBY', counts, name, n or 1) end

-- accepted counts the notification as accepted, once, whoever comes first: the
-- producer that has enqueued it, or the worker that got it from the queue.
local function accepted()
  if state and state ~= 'accepting' then return end
  count('accepted')
  redis.call('HSETNX', record, 'accepted', string.format('%.0f', now))
  redis.call('HSET', record, 'state', 'waiting')
  redis.call('PERSIST', record) -- what waits is not forgotten
end

if op == 'accept' then
  -- ARGV queue, then facts
  if state then return {state, redis.call('HGET', record, 'queue') or '', ofAnotherContent(record, ARGV[7])} end
  redis.call('HSET', record, 'state', 'accepting', 'queue', ARGV[5], 'accepted', string.format('%.0f', now), unpack(ARGV, 6))
  redis.call('PEXPIRE', record, retention)
  return {'', ARGV[5], 0}
elseif op == 'confirm' then
  if state == 'accepting' then accepted() end
elseif op == 'arrive' then -- ARGV queue, then facts
  accepted()
  if not state then redis.call('HSET', record, 'queue', ARGV[5], unpack(ARGV, 6)) end
elseif op == 'defer' then
  if not open then return {0} end
  accepted()
  local before = redis.call('HGET', record, 'until')
  if before == ARGV[5] then return {1} end -- it is the same one
  if not before then count('booked') end
  count('deferred')
  redis.call('HINCRBY', record, 'deferrals', 1)
  redis.call('HSET', record, 'until', ARGV[5], 'scope', ARGV[6], 'rule', ARGV[7])
  return {1}
elseif op == 'attempt' then -- ARGV number, visit, outcomes, providers' IDs, error
  if not open then return {0} end
  local known = redis.call('HMGET', record, 'attempts', 'visit')
  local n, noted = tonumber(ARGV[5]), tonumber(known[1] or 0)
  if n < noted or n == noted and tonumber(ARGV[6]) < tonumber(known[2] or 0) then return {0} end -- it is overtaken
  accepted()
  redis.call('HSETNX', record, 'first', string.format('%.0f', now))
  redis.call('HSET', record, 'attempts', ARGV[5], 'visit', ARGV[6], 'outcomes', ARGV[7], 'sent', ARGV[8], 'error', ARGV[9])
  return {1}
elseif op == 'settle' then
  if not open then return {0} end
  -- ARGV state, outcomes, providers' IDs, error, attempts, dead tokens, letter,
  -- deferrals; and where ends are told of, how many are kept, reason, instant, targets. What
  -- refuses to be written shows before anything has changed
  count(ARGV[5], 0)
  if tonumber(ARGV[10]) > 0 then count('dead_tokens', 0) end
  if ARGV[11] ~= '' then redis.call('HSET', letters, id, ARGV[11]) end
  accepted()
  if redis.call('HDEL', record, 'until', 'scope', 'rule') > 0 then count('booked', -1) end
  count(ARGV[5])
  if tonumber(ARGV[10]) > 0 then count('dead_tokens', ARGV[10]) end
  redis.call('HSET', record, 'state', ARGV[5], 'outcomes', ARGV[6], 'sent', ARGV[7], 'error', ARGV[8], 'ended', string.format('%.0f', now))
  if tonumber(ARGV[9]) > 0 then redis.call('HSET', record, 'attempts', ARGV[9]) end
  if tonumber(ARGV[12]) > 0 then redis.call('HINCRBY', record, 'deferrals', ARGV[12]) end
  if KEYS[4] then
    local known = redis.call('HMGET', record, 'of', 'attempts')
    local app, user, category = string.match(known[1] or '\n\n\n', '^(.-)\n(.-)\n(.-)\n')
    redis.pcall('XADD', KEYS[4], 'MAXLEN', '~', ARGV[13], '*', 'id', id, 'app', app, 'user', user, 'category', category,
      'state', ARGV[5], 'reason', ARGV[14], 'attempts', known[2] or 0, 'at', ARGV[15], 'targets', ARGV[16])
  end
  -- known for the retention since it was accepted, and for a while in any case
  local since = now - tonumber(redis.call('HGET', record, 'accepted'))
  redis.call('PEXPIRE', record, string.format('%.0f', math.max(retention - since, 3600000)))
  return {1}
elseif op == 'reopen' then
  -- ARGV the letter's state and queue, then facts, and the
  -- outcomes to begin with
  if redis.call('HEXISTS', letters, id) == 0 then return {0} end
  if ARGV[5] == 'malformed' then return {1} end
  if state and state ~= 'waiting' and state ~= ARGV[5] then -- it has ended otherwise since
    redis.call('HDEL', letters, id)
    return {0}
  end
  if state ~= 'waiting' then -- one that was forgotten is known again
    count(ARGV[5], -1)
    redis.call('HDEL', record, 'ended', 'attempts', 'visit', 'first', 'outcomes', 'sent', 'error')
    redis.call('HSET', record, 'state', 'waiting', 'queue', ARGV[6], unpack(ARGV, 7))
    redis.call('HSETNX', record, 'accepted', string.format('%.0f', now))
    redis.call('PERSIST', record)
  end
  return {1}
elseif op == 'discard' then
  if redis.call('HGET', letters, id) == ARGV[5] then
    redis.call('HDEL', letters, id)
    if ARGV[6] == 'malformed' then count('malformed', -1) end
  end
elseif op == 'malformed' then
  if redis.call('HSETNX', letters, id, ARGV[5]) == 1 then count('malformed') end
end
return {}
