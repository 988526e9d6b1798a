package store

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// WakeIdle is Lua: wake, given an IdleKey, tells one idle process that a job is due
// there, and returns whether there was one. While nobody is idle, that is one command on
// a key that is not there. tell gives a channel taken from there the word. Neither makes its
// script fail.
//
// soon is the interval in µs at which an idle process polls anyway. It needs no word for a job
// that is due later.
const WakeIdle = `
local soon = 1200000
local function tell(channel, idle) -- one with a hash tag is a Cluster's
  redis.pcall(string.find(channel, '{', 1, true) and 'SPUBLISH' or 'PUBLISH', channel, idle)
end
local function wake(idle)
  local channel = redis.pcall('SPOP', idle)
  if type(channel) ~= 'string' then return false end
  tell(channel, idle)
  return true
end
`

// leaveScript takes a process out of a set of idle ones, and wakes another: there may
// be jobs that only the one which leaves was told of.
//
// KEYS  the idle; ARGV  channel
var leaveScript = redis.NewScript(WakeIdle + `
redis.call('SREM', KEYS[1], ARGV[1])
wake(KEYS[1])
return 1
`)

// LeaveIdle takes a process's channel out of that set of idle ones, and wakes another process.
func LeaveIdle(ctx context.Context, client redis.UniversalClient, key, channel string) error {
	return leaveScript.Run(ctx, client, []string{key}, channel).Err()
}
