package store

import "time"

// WakeIdle is Lua: wake, given an IdleKey, takes the queue's flag down and publishes the key on
// the channel that the flag names, where every idle worker hears it. While nobody is idle, that
// is one command on a key that is not there. It never makes its script fail.
//
// soon is the interval in µs at which an idle process polls anyway. It needs no word for a job
// that is due later.
const WakeIdle = `
local soon = 1200000
local function wake(idle)
  local channel = redis.pcall('GETDEL', idle)
  if type(channel) ~= 'string' then return end
  redis.pcall(string.find(channel, '{', 1, true) and 'SPUBLISH' or 'PUBLISH', channel, idle) -- one with a hash tag is a Cluster's
end
`

// idleFor is the life of a flag: an idle worker sets it at each poll.
const idleFor = 12 * time.Second
