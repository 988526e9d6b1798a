-- owned reports whether the task is in that claim. A key of another type is in every claim, so that
-- it can be set aside.
local function owned(task, claim)
  local its = redis.pcall('HGET', task, 'worker')
  return (its or '') == claim or type(its) == 'table'
end
