-- owned reports whether the task is in that hand. A key of another type is in any: it is set
-- aside.
local function owned(task, hand)
  local its = redis.pcall('HGET', task, 'worker')
  return (its or '') == hand or type(its) == 'table'
end

-- release takes a job out of its hand: it is in no place after that.
local function release(active, task, id)
  redis.call('LREM', active, -1, id)
  redis.pcall('HDEL', task, 'worker')
end
