package store

import (
	"fmt"
	"runtime/debug"
)

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
