-- The notes of notifications that were taken from the queue.
-- KEYS  notes, due
-- ARGV  op, ID, note, grace (ms), and for claim how many, and what begins the records' keys
local notes, due = KEYS[1], KEYS[2]
local op, id, note, grace = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function at(instant) return string.format('%.0f', instant) end

if op == 'drop' then
  if redis.call('HGET', notes, id) == note then
    redis.call('HDEL', notes, id)
    redis.call('ZREM', due, id)
    return {'1'}
  end
elseif op == 'leave' then -- to the workers, at once
  if redis.call('HGET', notes, id) == note then redis.call('ZADD', due, at(now), id) end
elseif op == 'claim' then
  local claimed = {}
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', due, '-inf', at(now), 'LIMIT', 0, ARGV[5])) do
    local note = redis.call('HGET', notes, id)
    local again = redis.pcall('HGET', ARGV[6] .. id, 'state') == 'waiting' -- its ID was forgotten, and accepted anew
    if note and not again then
      redis.call('ZADD', due, at(now + grace), id)
      claimed[#claimed + 1] = id
      claimed[#claimed + 1] = note
    else
      redis.call('HDEL', notes, id)
      redis.call('ZREM', due, id)
    end
  end
  return claimed
end
return {}
