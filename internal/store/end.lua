-- End ends jobs of a queue: active -> ended. For each job that settles, it also ends the
-- notification as delivered at the first attempt; the other notifications have ended before.
--
-- Its first write is a deletion, so that a Redis that is out of memory runs the rest of the script
-- too.
--
-- KEYS    active; asynq's counts of the day and in all; counts; then for each job the task and the
--         record; if ends are reported, the prefix of their streams
-- ARGV    now and retention (ms); when asynq's count of the day expires (s); the queue; then for each
--         job its ID, the claim, 1 if it settles, the outcomes and the providers' IDs; if ends are
--         reported, the bound of a stream, the instant, and the targets of each job
-- answer  for each job 1; 0 if it is not in that claim; 2 if it does not settle and its notification
--         waits on this queue, because a failover has undone its end; or the error of its own record
--         or counts. Only the first call ends the job
-- caller  Ends, after processing
-- repeat  as often as wanted: the first call gives up the claim
local active, day, all, counts = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now, retention, lapses, queue = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local keys, args, width = 4, 4, 5 -- how many keys and arguments precede the jobs'; each job has width arguments
redis.call('HDEL', counts, '')

local function settle(record, id, outcomes, sent)
  local known = redis.pcall('HMGET', record, 'state', 'accepted', 'until', 'collapse', 'of')
  if known.err then return false, known.err end
  local state, accepted = known[1], known[2] or now
  if state and state ~= 'waiting' then return end
  local counted = redis.pcall('HINCRBY', counts, 'delivered', 1)
  if type(counted) == 'table' then return false, counted.err end
  if state ~= 'waiting' then
    counted = redis.pcall('HINCRBY', counts, 'accepted', 1)
    if type(counted) == 'table' then
      redis.call('HINCRBY', counts, 'delivered', -1)
      return false, counted.err
    end
  end
  redis.call('HSET', record, 'state', 'delivered', 'accepted', accepted, 'ended', now, 'attempts', 1, 'outcomes', outcomes, 'sent', sent)
  removeWaiting(record, id, known[5])
  if known[3] then
    redis.call('HDEL', record, 'until', 'scope', 'rule')
    redis.pcall('HINCRBY', counts, 'booked', -1)
  end
  if known[4] and known[4] ~= '' then redis.pcall('PEXPIRE', known[4], retention) end
  local left = retention - math.max(0, now - accepted)
  redis.call('PEXPIRE', record, string.format('%.0f', math.max(left, 3600000)))
  return true
end

local n = math.floor((#KEYS - keys) / 2)
local streams, tail = KEYS[keys + 2 * n + 1], args + width * n
local function tell(i, record, id)
  local of = redis.call('HGET', record, 'of') or '\n\n\n'
  local app, user, category = string.match(of, '^(.-)\n(.-)\n(.-)\n')
  report(streams, tonumber(ARGV[tail + 1]), counts, 'outcomes', app, {'id', id, 'app', app, 'user', user, 'category', category,
    'state', 'delivered', 'reason', '', 'attempts', 1, 'at', ARGV[tail + 2], 'targets', ARGV[tail + 2 + i]})
end

local function undone(record)
  local known = redis.pcall('HMGET', record, 'state', 'queue')
  return known[1] == 'waiting' and (known[2] or queue) == queue
end

local answers, done = {}, 0
for i = 1, n do
  local task, record = KEYS[keys + 2 * i - 1], KEYS[keys + 2 * i]
  local id, claim, settles, outcomes, sent = unpack(ARGV, args + width * (i - 1) + 1, args + width * i)
  local ended, problem
  if settles == '1' then -- it was sent, even if another worker has claimed it since
    ended, problem = settle(record, id, outcomes, sent)
    if ended and streams then tell(i, record, id) end
  end
  if problem then answers[i] = problem
  elseif not owned(task, claim) then answers[i] = 0
  elseif settles ~= '1' and undone(record) then answers[i] = 2
  else
    redis.call('LREM', active, -1, id)
    redis.call('DEL', task)
    answers[i], done = 1, done + 1
  end
end
if done > 0 then
  if redis.pcall('INCRBY', day, done) == done then redis.call('EXPIREAT', day, lapses) end
  redis.pcall('INCRBY', all, done)
end
return answers
