-- One step of a notification's record, with the sums it changes.
-- KEYS  record, counts, letters; for a settle if ends are reported, the prefix of their streams
-- ARGV  op, ID, now (ms), retention (ms), then the operation's own
local record, counts, letters = KEYS[1], KEYS[2], KEYS[3]
local op, id, now, retention = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
if op == 'purge' then
  return {forgetLetter(letters, counts, id) and 1 or 0}
end
-- What has happened is noted by a Redis that is out of memory too: it refuses a
-- script that grows something first, and not one that deletes first.
if op == 'settle' or op == 'attempt' then redis.call('HDEL', record, '') end
local state = redis.call('HGET', record, 'state')
local open = not state or state == 'waiting'

if op == 'arrive' then -- ARGV queue, then facts
  accepted(record, counts, now)
  if not state then redis.call('HSET', record, 'queue', ARGV[5], unpack(ARGV, 6)) end
elseif op == 'defer' then
  if not open then return {0} end
  accepted(record, counts, now)
  local before = redis.call('HGET', record, 'until')
  if before == ARGV[5] then return {1} end -- it is the same one
  if not before then redis.call('HINCRBY', counts, 'booked', 1) end
  redis.call('HINCRBY', counts, 'deferred', 1)
  redis.call('HINCRBY', record, 'deferrals', 1)
  redis.call('HSET', record, 'until', ARGV[5], 'scope', ARGV[6], 'rule', ARGV[7])
  return {1}
elseif op == 'attempt' then -- ARGV number, visit, outcomes, providers' IDs, error, excused
  if not open then return {0} end
  local known = redis.call('HMGET', record, 'attempts', 'visit')
  local n, noted = tonumber(ARGV[5]), tonumber(known[1] or 0)
  if n < noted or n == noted and tonumber(ARGV[6]) < tonumber(known[2] or 0) then return {0} end -- it is overtaken
  accepted(record, counts, now)
  redis.call('HSETNX', record, 'first', string.format('%.0f', now))
  redis.call('HSET', record, 'attempts', ARGV[5], 'visit', ARGV[6], 'outcomes', ARGV[7], 'sent', ARGV[8], 'error', ARGV[9])
  if ARGV[10] ~= '0' then redis.call('HSET', record, 'excused', ARGV[10]) end
  return {1}
elseif op == 'settle' then -- ARGV an end
  return {settle(record, counts, letters, KEYS[4], id, now, retention, 4) and 1 or 0}
elseif op == 'malformed' then -- ARGV letter, how many may be kept
  if redis.call('HEXISTS', letters, id) == 1 then return {} end
  redis.call('HINCRBY', counts, 'malformed', 0) -- which a Redis without memory refuses
  keepLetter(record, counts, letters, id, ARGV[5], '', tonumber(ARGV[6]))
  redis.call('HINCRBY', counts, 'malformed', 1)
end
return {}
