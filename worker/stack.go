package worker

import "runtime"

// growStack makes room on the stack of one of asynq's goroutines, of which each
// job has two, while there is next to nothing on it. A stack starts small and
// doubles when it is full, and what is on it is then copied, frame by frame: done
// deep in a job, that takes a twentieth of a worker's processor time.
//
//go:noinline
func growStack() {
	var room [4 << 10]byte
	runtime.KeepAlive(&room)
}
