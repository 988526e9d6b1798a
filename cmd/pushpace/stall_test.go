//go:build unix

package main

import (
	"testing"
	"time"
)

// stallLimit is how long this process may be held up before instants that other
// processes take at the same time say nothing of the program.
const stallLimit = 20 * time.Millisecond

// onQuietMachine runs f, which judges instants, again when the machine has stood
// still meanwhile: at most three times, and then skips the test. f answers what
// is wrong with the instants, or "".
func onQuietMachine(t *testing.T, f func() string) {
	t.Helper()
	for range 3 {
		stop := make(chan struct{})
		longest := make(chan time.Duration)
		go watchStalls(stop, longest)
		wrong := f()
		close(stop)
		stall := <-longest
		switch {
		case wrong == "":
			return
		case stall < stallLimit:
			t.Error(wrong)
			return
		}
		t.Logf("the machine stood still for %s: %s", stall, wrong)
	}
	t.Skip("the machine is too busy to judge instants")
}

// watchStalls measures the longest time for which a process that wants to run
// does not get to.
func watchStalls(stop <-chan struct{}, longest chan<- time.Duration) {
	const every = 5 * time.Millisecond
	var most time.Duration
	timer := time.NewTimer(every)
	defer timer.Stop()
	for last := time.Now(); ; {
		select {
		case <-stop:
			longest <- most
			return
		case <-timer.C:
		}
		now := time.Now()
		most = max(most, now.Sub(last)-every)
		last = now
		timer.Reset(every)
	}
}
