-- owned reports whether the task is in that hand. A key of another type is in any: it is set
-- aside.
local function owned(task, hand)
  local its = redis.pcall('HGET', task, 'worker')
  return (its or '') == hand or type(its) == 'table'
end
