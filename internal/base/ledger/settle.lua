-- accepted counts a notification as accepted that has no record, since no producer of ours
-- has enqueued it.
local function accepted(record, counts, now)
  if redis.call('HEXISTS', record, 'state') == 1 then return end
  redis.call('HINCRBY', counts, 'accepted', 1)
  redis.call('HSETNX', record, 'accepted', string.format('%.0f', now))
  redis.call('HSET', record, 'state', 'waiting')
end

-- settle ends the notification, and counts it, and returns whether it had not ended. What
-- refuses to be written shows before anything has changed.
--
-- ARGV has the end behind that place: state, outcomes, providers' IDs, error, attempts, dead
-- tokens, letter, deferrals; where there is a stream of the ends, how many it keeps, reason,
-- instant, targets.
local function settle(record, counts, letters, stream, id, now, retention, place)
  local state, outcomes, sent, problem, attempts, dead, letter, deferrals, kept, reason, at, targets = unpack(ARGV, place + 1)
  local known = redis.call('HGET', record, 'state')
  if known and known ~= 'waiting' then return false end
  for _, count in ipairs({state, 'booked', 'dead_tokens'}) do redis.call('HINCRBY', counts, count, 0) end
  if letter ~= '' then redis.call('HSET', letters, id, letter) end
  accepted(record, counts, now)
  if redis.call('HDEL', record, 'until', 'scope', 'rule') > 0 then redis.call('HINCRBY', counts, 'booked', -1) end
  redis.call('HINCRBY', counts, state, 1)
  if tonumber(dead) > 0 then redis.call('HINCRBY', counts, 'dead_tokens', dead) end
  redis.call('HSET', record, 'state', state, 'outcomes', outcomes, 'sent', sent, 'error', problem, 'ended', string.format('%.0f', now))
  if tonumber(attempts) > 0 then redis.call('HSET', record, 'attempts', attempts) end
  if tonumber(deferrals) > 0 then redis.call('HINCRBY', record, 'deferrals', deferrals) end
  if stream then
    local known = redis.call('HMGET', record, 'of', 'attempts', 'into')
    local app, user, category = string.match(known[1] or '\n\n\n', '^(.-)\n(.-)\n(.-)\n')
    local entry = {'id', id, 'app', app, 'user', user, 'category', category,
      'state', state, 'reason', reason, 'attempts', known[2] or 0, 'at', at, 'targets', targets}
    if known[3] then entry[#entry + 1], entry[#entry + 2] = 'into', known[3] end
    redis.pcall('XADD', stream, 'MAXLEN', '~', kept, '*', unpack(entry))
  end
  -- known for the retention since it was accepted, and for a while in any case
  local since = now - (tonumber(redis.call('HGET', record, 'accepted') or nil) or now)
  redis.call('PEXPIRE', record, string.format('%.0f', math.max(retention - since, 3600000)))
  return true
end
