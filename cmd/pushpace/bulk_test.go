package main

import (
	"testing"
	"testing/synctest"
	"time"
)

// Lines that follow within the pause are enqueued together, and none waits longer for the
// next.
func TestLinesAreGathered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		queue := make(chan line)
		go func() {
			for i := range 4 {
				queue <- line{number: i + 1}
				if i == 2 {
					time.Sleep(2 * batchPause)
				}
			}
			close(queue)
		}()
		for _, want := range []int{3, 1} {
			if got := len(gather(<-queue, queue)); got != want {
				t.Errorf("%d lines are enqueued together, want %d", got, want)
			}
		}
	})
}
