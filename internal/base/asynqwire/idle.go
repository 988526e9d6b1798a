package asynqwire

// IdleKey is the set of the worker processes that have found a queue empty: of each,
// the channel on which it hears that a job is due. worker/queue has the protocol.
func IdleKey(queue string) string { return QueueKey(queue, "idle") }

// WakeIdle is Lua: wake, given an IdleKey, tells one idle process that a job is due
// there, and returns whether there was one. While nobody is idle, that is one command on
// a key that is not there. It never makes its script fail.
const WakeIdle = `
local function wake(idle)
  local channel = redis.pcall('SPOP', idle)
  if type(channel) ~= 'string' then return false end
  redis.pcall('PUBLISH', channel, idle)
  return true
end
`
