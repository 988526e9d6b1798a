-- wakeJob makes a delayed job of the queue due at that instant (us), if that is earlier, or at once
-- without an instant: retry -> pending. The queue has the keys retry, pending, due and idle, and
-- the prefix of its tasks. It returns 'due', 'parked' for a parked job, which only a call without
-- an instant moves, 'in hand' for one that a worker has, and nil for any other.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local function wakeJob(queue, id, at)
  local key = queue.tasks .. id
  if at and redis.pcall('HEXISTS', key, 'parked') == 1 then return 'parked' end
  if at and at > now and redis.call('ZSCORE', queue.retry, id) then
    local due = tonumber(redis.call('ZSCORE', queue.due, id) or redis.call('ZSCORE', queue.retry, id) * 1000000)
    if due <= at then return 'due' end
    redis.call('ZADD', queue.due, string.format('%.0f', at), id)
    redis.call('ZADD', queue.retry, math.ceil(at / 1000000), id)
    if at < now + soon then wake(queue.idle) end
    return 'due'
  elseif redis.call('ZREM', queue.retry, id) == 1 then
    local full = redis.pcall(at and 'RPUSH' or 'LPUSH', queue.pending, id) -- a slot is a turn
    if type(full) == 'table' then -- it is no list
      redis.call('ZADD', queue.retry, 0, id)
      return nil
    end
    redis.pcall('ZREM', queue.due, id)
    redis.pcall('HSET', key, 'state', 'pending', 'pending_since', string.format('%.0f000', now))
    wake(queue.idle)
    return 'due'
  elseif redis.pcall('HGET', key, 'state') == 'active' then
    return 'in hand'
  end
end
