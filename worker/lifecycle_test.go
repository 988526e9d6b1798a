package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/worker"
)

// A worker that never started may be stopped repeatedly, and does not start afterwards.
func TestStoppedWorkerDoesNotStart(t *testing.T) {
	r := newRig(t, oneRedis(t), hourly)
	w, err := worker.New(r.options)
	must(t, err)
	for range 2 {
		must(t, w.Stop(t.Context()))
	}
	if w.Start(t.Context()) == nil {
		t.Error("it starts after it has stopped")
	}
}

// The end of Start's context does not end a started worker.
func TestStartContextBoundsOnlyStart(t *testing.T) {
	r := newRig(t, oneRedis(t), hourly)
	ended, end := context.WithCancel(t.Context())
	end()
	w, err := worker.New(r.options)
	must(t, err)
	if err := w.Start(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("it starts: %v", err)
	}
	must(t, w.Stop(t.Context()))

	w, err = worker.New(r.options)
	must(t, err)
	starting, end := context.WithCancel(t.Context())
	must(t, w.Start(starting))
	end()
	if w.Start(t.Context()) == nil {
		t.Error("it starts twice")
	}
	r.enqueueMany("after", 3, apple)
	r.settled(3)
	must(t, w.Stop(t.Context()))
	must(t, w.Stop(t.Context()))
}

// Jobs in flight when Stop's context ends return to the queue, and another worker finishes them.
func TestEndOfStopContextRequeuesJobs(t *testing.T) {
	r := newRig(t, oneRedis(t), hourly)
	r.options.ShutdownTimeout = time.Minute
	r.apns.RespondAlways(standin.Answer{Delay: time.Hour})
	w, err := worker.New(r.options)
	must(t, err)
	must(t, w.Start(t.Context()))
	r.enqueueMany("hangs", 1, apple)
	wait(t, func() bool { return r.apns.Count().InFlight == 1 })
	ended, end := context.WithCancel(t.Context())
	end()
	if err := w.Stop(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("all has ended: %v", err)
	}
	must(t, w.Stop(t.Context())) // the worker ends nevertheless, long before the minute
	r.apns.Recover()
	r.start()
	r.settled(1)
}
