-- The dead letters of an app are bounded. These keys and counts are kept per app; jobs without an
-- app in the configuration share the empty name:
--
--   letters:APP               sorted set: the IDs, by when each was kept (us)
--   letters_of                hash: the APP of each letter by ID
--   letter_bytes:APP          count: the size of all letters in bytes
--   dropped:dead_letters:APP  count: letters deleted because of the bound

-- forgetLetter deletes a dead letter, and returns whether there was one. The letter with that ID
-- may belong to a different app.
local function forgetLetter(letters, counts, id)
  local app = redis.call('HGET', letters .. '_of', id)
  if app then
    redis.call('HDEL', letters .. '_of', id)
    redis.call('ZREM', letters .. ':' .. app, id)
    redis.call('HINCRBY', counts, 'letter_bytes:' .. app, -redis.call('HSTRLEN', letters, id))
  end
  return redis.call('HDEL', letters, id) == 1
end

-- keepLetter stores a dead letter. If the app then has more than most letters, or they take more
-- than 4 KiB times most, it deletes the oldest ones, but at most 10 in one call, so that a lowered
-- bound does not block Redis. If a deleted letter's notification was rejected, its record expires
-- in 30 s: until then its settle may be repeated. Any other record stays: an exhausted notification
-- may have been sent, so its ID must remain known.
local function keepLetter(record, counts, letters, id, letter, app, most)
  local index, bytes, dropped = letters .. ':' .. app, 'letter_bytes:' .. app, 0
  forgetLetter(letters, counts, id) -- of an earlier notification with the ID
  local clock = redis.call('TIME')
  redis.call('ZADD', index, string.format('%.0f', clock[1] * 1000000 + clock[2]), id)
  redis.call('HSET', letters, id, letter)
  redis.call('HSET', letters .. '_of', id, app)
  local size, count = redis.call('HINCRBY', counts, bytes, #letter), redis.call('ZCARD', index)
  while dropped < 10 and count > 1 and (count > most or size > most * 4096) do
    local oldest = redis.call('ZRANGE', index, 0, 0)[1]
    size, count, dropped = size - redis.call('HSTRLEN', letters, oldest), count - 1, dropped + 1
    forgetLetter(letters, counts, oldest)
    local its = string.sub(record, 1, -#id - 1) .. oldest
    if redis.pcall('HGET', its, 'state') == 'rejected' and redis.call('PTTL', its) > 30000 then
      redis.call('PEXPIRE', its, 30000)
    end
  end
  if dropped > 0 then redis.call('HINCRBY', counts, 'dropped:dead_letters:' .. app, dropped) end
end
