-- settle ends the notification, counts it, and returns true; false if it had ended before. A write
-- that Redis may refuse fails before any change.
--
-- ARGV holds the end after the index place: state, outcomes, providers' IDs, error, attempts, dead tokens,
-- letter, deferrals, the app or '' for an unknown one, its bound of dead letters; if ends are
-- reported, its bound of reports, reason, instant, targets.
local function settle(record, counts, letters, streams, id, now, retention, place)
  local state, outcomes, sent, problem, attempts, dead, letter, deferrals, app, most, kept, reason, at, targets = unpack(ARGV, place + 1, place + 14)
  local known = redis.call('HGET', record, 'state')
  if known and known ~= 'waiting' then return false end
  for _, count in ipairs({state, 'booked', 'dead_tokens'}) do redis.call('HINCRBY', counts, count, 0) end
  if letter ~= '' then keepLetter(record, counts, letters, id, letter, app, tonumber(most)) end
  accepted(record, counts, now)
  if redis.call('HDEL', record, 'until', 'scope', 'rule') > 0 then redis.call('HINCRBY', counts, 'booked', -1) end
  redis.call('HINCRBY', counts, state, 1)
  if tonumber(dead) > 0 then redis.call('HINCRBY', counts, 'dead_tokens', dead) end
  redis.call('HSET', record, 'state', state, 'outcomes', outcomes, 'sent', sent, 'error', problem, 'ended', string.format('%.0f', now))
  removeWaiting(record, id, redis.call('HGET', record, 'of'))
  redis.call('HDEL', record, 'carries', 'joined', 'title2', 'title3', 'newest', 'newest_at') -- see digest.lua
  local claim = redis.call('HGET', record, 'collapse') -- see collapse.lua
  if claim and claim ~= '' then redis.pcall('PEXPIRE', claim, string.format('%.0f', retention)) end
  if tonumber(attempts) > 0 then redis.call('HSET', record, 'attempts', attempts) end
  if tonumber(deferrals) > 0 then redis.call('HINCRBY', record, 'deferrals', deferrals) end
  if streams then
    local known = redis.call('HMGET', record, 'of', 'attempts', 'into')
    local its, user, category = string.match(known[1] or '\n\n\n', '^(.-)\n(.-)\n(.-)\n')
    local entry = {'id', id, 'app', its, 'user', user, 'category', category,
      'state', state, 'reason', reason, 'attempts', known[2] or 0, 'at', at, 'targets', targets}
    if known[3] then entry[#entry + 1], entry[#entry + 2] = 'into', known[3] end
    report(streams, tonumber(kept), counts, 'outcomes', app, entry)
  end
  -- The record lasts for the retention since acceptance, and at least an hour from now.
  local since = now - (tonumber(redis.call('HGET', record, 'accepted') or nil) or now)
  redis.call('PEXPIRE', record, string.format('%.0f', math.max(retention - math.max(since, 0), 3600000)))
  return true
end
