-- One step of a notification's record, with the counts that it changes.
-- KEYS  record, counts, letters; for a settle if ends are reported, the prefix of their streams
-- ARGV  op, ID, now (ms), retention (ms), then the operation's own arguments
local record, counts, letters = KEYS[1], KEYS[2], KEYS[3]
local op, id, now, retention = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
if op == 'purge' then
  return {forgetLetter(letters, counts, id) and 1 or 0}
end
-- A settle must be recorded even by a Redis that is out of memory. Such a Redis refuses a script if
-- its first write adds data, but not if that write deletes.
if op == 'settle' then redis.call('HDEL', record, '') end
local state = redis.call('HGET', record, 'state')

if op == 'arrive' then -- ARGV queue, then facts
  accepted(record, counts, now)
  if not state then
    redis.call('HSET', record, 'queue', ARGV[5], unpack(ARGV, 6))
    addWaiting(record, id, ARGV[7])
  end
elseif op == 'settle' then -- ARGV an end
  return {settle(record, counts, letters, KEYS[4], id, now, retention, 4) and 1 or 0}
elseif op == 'malformed' then -- ARGV letter, how many may be kept
  if redis.call('HEXISTS', letters, id) == 1 then return {} end
  redis.call('HINCRBY', counts, 'malformed', 0) -- fails if Redis is out of memory
  keepLetter(record, counts, letters, id, ARGV[5], '', tonumber(ARGV[6]))
  redis.call('HINCRBY', counts, 'malformed', 1)
end
return {}
