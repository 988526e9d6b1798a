package store

import "time"

// WakeIdle is Lua. wake(idle), given an IdleKey, deletes the queue's flag and publishes the key on
// the channel that the flag names, to which every idle worker subscribes. If no worker is idle,
// wake is one command on a missing key. wake never makes its script fail.
//
// soon is the interval in µs at which an idle process polls anyway. A job that is due later needs
// no notification.
const WakeIdle = `
local soon = 1200000
local function wake(idle)
  local channel = redis.pcall('GETDEL', idle)
  if type(channel) ~= 'string' then return end
  redis.pcall(string.find(channel, '{', 1, true) and 'SPUBLISH' or 'PUBLISH', channel, idle) -- a channel with a hash tag is a Cluster's
end
`

// idleTTL is the TTL of a flag: an idle worker sets it at each poll.
const idleTTL = 12 * time.Second
