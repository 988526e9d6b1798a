-- One step of a digest: of one of its notifications. The digest's key alone decides who is
-- told of in which push. While it is open it is a hash:
--
--   carrier   the ID of the notification that waits, and whose push tells of all
--   ids       those of all, the carrier's first, by line feeds; count is how many
--   t1 t2 t3  the titles of the first
--   at        when the newest of them was accepted (us); newest is that notification in JSON
--   expires   when the last of them expires (ms); 0 for never
--
-- It is renamed once it is sealed: nobody joins any more, and its carrier finds it there as
-- often as it asks. The carrier's record has carries, the digest's name, while it is open,
-- and then, as has that of each that goes by itself, told: how many others its push tells of.
--
-- KEYS  the digest, what its carrier has sealed, the notification's record; for join, counts,
-- letters, and if ends are reported, the prefix of their streams
-- ARGV  op, ID, life (ms), then the operation's own
local open, sealed, record = KEYS[1], KEYS[2], KEYS[3]
local op, id, life = ARGV[1], ARGV[2], ARGV[3]
if op == 'seal' then redis.call('HDEL', record, '') end -- which a Redis without memory does not refuse
local known = redis.call('HMGET', record, 'state', 'told')
local state, told = known[1], known[2]
local carrier = redis.call('HGET', open, 'carrier')

if not told and redis.call('EXISTS', sealed) == 1 then redis.call('DEL', sealed) end -- of an earlier one with the ID

-- keep has a key live for as long, or longer where it does.
local function keep(key)
  if redis.call('PTTL', key) < tonumber(life) then redis.call('PEXPIRE', key, life) end
end

local function all(what, key)
  keep(key)
  local answer = redis.call('HGETALL', key)
  table.insert(answer, 1, what)
  return answer
end

local function add(count, title, at, expires, newest)
  redis.call('HSET', open, 'count', count)
  if count <= 3 then redis.call('HSET', open, 't' .. count, title) end
  local before = tonumber(redis.call('HGET', open, 'expires') or -1)
  if before < 0 or before > 0 and (expires == 0 or expires > before) then
    redis.call('HSET', open, 'expires', string.format('%.0f', expires))
  end
  if at >= tonumber(redis.call('HGET', open, 'at') or 0) then
    redis.call('HSET', open, 'at', string.format('%.0f', at), 'newest', newest)
  end
end

if op == 'look' then
  if redis.call('EXISTS', sealed) == 1 then return all('sealed', sealed) end
  if carrier == id then return all('carries', open) end
  return {'none'}
elseif op == 'seal' then
  if carrier == id then
    local count = tonumber(redis.call('HGET', open, 'count'))
    redis.call('HDEL', record, 'carries')
    redis.call('HSET', record, 'told', count - 1)
    if count > 1 then redis.call('RENAME', open, sealed) else redis.call('DEL', open) end
  elseif state == 'waiting' and not told then
    redis.call('HDEL', record, 'carries') -- of a digest that is lost
    redis.call('HSET', record, 'told', 0)
  end
  if state and state ~= 'waiting' then return {'ended'} end
  if redis.call('EXISTS', sealed) == 1 then return all('sealed', sealed) end
  return {'none'}
end

-- join: ARGV whether it is to carry, how many at most, accepted (us), title, expires (ms), the
-- notification, the digest's name, now (ms), retention (ms), then its end
local carry, most, at, title, expires, newest, name = ARGV[4] == '1', tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7], tonumber(ARGV[8]), ARGV[9], ARGV[10]
if state and state ~= 'waiting' then return {'ended'} end
if told then
  if redis.call('EXISTS', sealed) == 1 then keep(sealed) end
  return {'none'}
end
if carrier == id then return all('carries', open) end
if not carrier then
  if not carry then return {'none'} end
  accepted(record, KEYS[4], tonumber(ARGV[11]))
  redis.call('HSET', open, 'carrier', id, 'ids', id)
  add(1, title, at, expires, newest)
  redis.call('HSET', record, 'carries', name)
  return all('carries', open)
end
local count = tonumber(redis.call('HGET', open, 'count'))
if count >= most then return {'full', carrier} end
redis.call('HSET', record, 'into', carrier)
settle(record, KEYS[4], KEYS[5], KEYS[6], id, tonumber(ARGV[11]), tonumber(ARGV[12]), 12)
redis.call('HSET', open, 'ids', redis.call('HGET', open, 'ids') .. '\n' .. id)
add(count + 1, title, at, expires, newest)
return {'joined', carrier}
