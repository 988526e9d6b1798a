-- Taken works on the notes of notifications that were taken from the queue.
-- KEYS  notes, due
-- ARGV  op; for claim the grace (ms), the most notes, and the prefix of the records' keys; for drop
-- the ID and text of each note; for leave the ID, the old and the new text
local notes, due, op = KEYS[1], KEYS[2], ARGV[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function at(instant) return string.format('%.0f', instant) end

local function drop(id)
  redis.call('HDEL', notes, id)
  redis.call('ZREM', due, id)
end

if op == 'claim' then
  local claimed = {}
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', due, '-inf', at(now), 'LIMIT', 0, ARGV[3])) do
    local note = redis.call('HGET', notes, id)
    local again = redis.pcall('HGET', ARGV[4] .. id, 'state') == 'waiting' -- the record has expired, and the ID was accepted anew
    if note and not again then
      redis.call('ZADD', due, at(now + ARGV[2]), id)
      claimed[#claimed + 1] = id
      claimed[#claimed + 1] = note
    else
      drop(id)
    end
  end
  return claimed
end

local there = {} -- IDs of the notes that were unchanged
local width = op == 'leave' and 3 or 2
for i = 2, #ARGV, width do
  local id = ARGV[i]
  if redis.call('HGET', notes, id) == ARGV[i + 1] then
    if op == 'drop' then drop(id)
    else -- a worker may claim the note at once
      redis.call('HSET', notes, id, ARGV[i + 2])
      redis.call('ZADD', due, at(now), id)
    end
    there[#there + 1] = id
  end
end
return there
