-- Digest is one step of a notification with a digest. The digest is open while its carrier waits
-- for a slot: other notifications join it and end as digested. The worker that processes the
-- carrier closes the digest first; its push includes all notifications that joined before. A
-- notification that may have been sent neither joins a digest nor opens one, so that a repeated
-- push includes the same notifications.
--
-- The carrier's record has
--
--   carries        the digest's name while it is open
--   "told"         how many notifications have joined; joined is their IDs, separated by line feeds
--   title2 title3  the titles of the first two of these
--   newest         the JSON of the joined notification that was accepted last, newest_at (us)
--
-- KEYS    the digest's key, with the ID of its last carrier; the record, the task, counts, letters;
--         if ends are reported, the prefix of their streams
-- ARGV    op, ID, claim, the digest's name, the prefix of the records' keys, the life of the digest
--         (ms), the most notifications in a push; title, accepted (us) and JSON of the
--         notification; now and retention (ms); its end as digested
--         op close closes the notification's digest; join also joins an open digest; wait joins an
--         open digest, or else opens its own
-- answer  ended; joined and the carrier; else "told", and joined, title2, title3, newest, newest_at
--         of the record, nil for none
-- caller  Shard.Digest, each time that a worker processes the notification
-- repeat  as often as wanted
local open, record, task, counts, letters, streams = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local op, id, claim, name, records, life, most = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])
local title, at, json, now, retention = ARGV[8], tonumber(ARGV[9]), ARGV[10], tonumber(ARGV[11]), tonumber(ARGV[12])
redis.call('HDEL', record, 'carries')
local own = redis.call('HMGET', record, 'state', 'until', 'joined', 'title2', 'title3', 'newest', 'newest_at')
if own[1] and own[1] ~= 'waiting' then return {'ended'} end

-- join returns whether the notification has joined the carrier.
local function join(carrier)
  local its = redis.call('HMGET', carrier, 'state', 'carries', 'told', 'joined', 'newest_at')
  local joined = tonumber(its[3] or 0) + 1
  if its[1] ~= 'waiting' or its[2] ~= name or joined >= most then return false end
  redis.call('HSET', record, 'into', string.sub(carrier, #records + 1))
  settle(record, counts, letters, streams, id, now, retention, 12)
  redis.call('HSET', carrier, 'told', joined, 'joined', its[4] and its[4] .. '\n' .. id or id)
  if joined <= 2 then redis.call('HSET', carrier, 'title' .. joined + 1, title) end
  if at >= tonumber(its[5] or 0) then redis.call('HSET', carrier, 'newest', json, 'newest_at', ARGV[9]) end
  return true
end

if op ~= 'close' and owned(task, claim) then -- otherwise another worker has claimed the job and may send it
  local carrier = redis.call('GET', open)
  local new = not own[2] and not own[3] -- it carries no others and has had no slot
  if new and carrier and carrier ~= id and join(records .. carrier) then return {'joined', carrier} end
  if op == 'wait' then
    accepted(record, counts, now)
    redis.call('HSET', record, 'carries', name)
    redis.call('SET', open, id, 'PX', life)
  end
end
return {'told', unpack(own, 3)}
