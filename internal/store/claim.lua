-- owned reports whether claim holds the task. Every claim holds a key of the wrong type, so that it
-- can be set aside.
local function owned(task, claim)
  local its = redis.pcall('HGET', task, 'worker')
  return (its or '') == claim or type(its) == 'table'
end
