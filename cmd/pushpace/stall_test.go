//go:build unix

package main

import (
	"testing"
	"time"
)

// stallLimit is how long this process may be held up before instants that other
// processes take at the same time say nothing of the program.
const stallLimit = 20 * time.Millisecond

// onQuietMachine runs f, which judges instants and answers what is wrong with
// them or "", up to five times. When none is right the test fails, or is
// skipped if the machine has stood still each time.
func onQuietMachine(t *testing.T, f func() string) {
	t.Helper()
	fault := ""
	for range 5 {
		stop := make(chan struct{})
		longest := make(chan time.Duration)
		go watchStalls(stop, longest)
		wrong := f()
		close(stop)
		stall := <-longest
		if wrong == "" {
			return
		}
		t.Logf("with a stall of %s: %s", stall, wrong)
		if stall < stallLimit && len(buildFlags) == 0 { // the race detector is a stall of its own
			fault = wrong
		}
	}
	if fault != "" {
		t.Fatal(fault)
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
