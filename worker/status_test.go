package worker_test

import (
	"context"
	"testing"

	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker"
	"github.com/pushpace/pushpace/worker/route"
)

func statusOf(t *testing.T, w *worker.Worker, app string, platform push.Platform) route.Status {
	t.Helper()
	for _, s := range w.Routes() {
		if s.App == app && s.Platform == platform {
			return s
		}
	}
	t.Fatalf("no route %s/%s", app, platform)
	return route.Status{}
}

// run starts a worker that stops at the end of the test, and returns it.
func (r *rig) run() *worker.Worker {
	r.t.Helper()
	w, err := worker.New(r.options)
	must(r.t, err)
	must(r.t, w.Start(r.t.Context()))
	r.t.Cleanup(func() { must(r.t, w.Stop(context.Background())) })
	return w
}

// status waits until the notification waits for the cause, and returns its status.
func (r *rig) status(id string, cause inspect.Cause) *inspect.Status {
	r.t.Helper()
	var status *inspect.Status
	wait(r.t, func() bool {
		var err error
		status, err = r.inspector().Status(r.t.Context(), push.Ref{ID: id})
		must(r.t, err)
		if status.State.Ended() {
			r.t.Fatalf("%s has ended: %+v", id, status.Record)
		}
		return status.Waits.For == cause
	})
	return status
}
