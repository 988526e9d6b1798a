// Package asynqwire is asynq's layout in Redis, as far as we write and read it ourselves:
// its keys, its message around a job, and why a message is no job of ours. asynq
// promises none of it; worker/queue's contract test holds it against asynq.
package asynqwire

import (
	"fmt"
	"math"
	"runtime/debug"
)

// TaskType is the type of our jobs on asynq's queues.
const TaskType = "pushpace:notification"

// MaxRetry is asynq's budget for our jobs. asynq archives a job that comes back
// on its last attempt before it asks whether that was a failure, so a deferral
// could lose it: the budget of attempts is ours, and asynq's is never used up.
const MaxRetry = math.MaxInt32 / 2

// Queue is the name of our queue of that priority.
func Queue(priority string) string { return "pushpace-" + priority }

// Queues are asynq's queues with the share of attention each gets while all of
// them have jobs.
func Queues() map[string]int {
	return map[string]int{Queue("critical"): 6, Queue("default"): 3, Queue("bulk"): 1}
}

// QueueKey is one of asynq's keys of a queue, as its internal/base makes them.
func QueueKey(queue, name string) string { return "asynq:{" + queue + "}:" + name }

// QueuesKey is asynq's set of the names of the queues that there are.
const QueuesKey = "asynq:queues"

// Version is the asynq whose scripts this package, internal/store and worker/queue take the
// place of. They recognise a script by the hash of its text, so that another text
// is never run, or replaced, by mistake.
const Version = "v0.26.0"

// The hashes of asynq's enqueueCmd and scheduleCmd, for which Producers run their own.
const (
	EnqueueHash  = "98d28b42650870a743450ffda9791e9e19c6991b"
	ScheduleHash = "8ce6b38a99b73194585c251eb3c2a89559f37a87"
)

// UnknownScript returns the error for a script of asynq's that is not known.
func UnknownScript(hash string) error {
	return OtherAsynq("runs a script that is not known, of hash " + hash)
}

// OtherAsynq returns the error for an asynq that does something else than the one
// that is known.
func OtherAsynq(does string) error {
	linked := "of this build"
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, m := range build.Deps {
			if m.Path == "github.com/hibiken/asynq" {
				linked = m.Version
				if m.Replace != nil {
					linked = "(" + m.Replace.Path + " " + m.Replace.Version + ")"
				}
			}
		}
	}
	return fmt.Errorf("asynq %s %s: build with asynq %s, or compare the scripts as worker/queue's contract test says", linked, does, Version)
}
