package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker"
	"github.com/pushpace/pushpace/worker/control"
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

// run is start, and answers the worker.
func (r *rig) run() *worker.Worker {
	r.t.Helper()
	w, err := worker.New(r.options)
	must(r.t, err)
	must(r.t, w.Start(r.t.Context()))
	r.t.Cleanup(func() { must(r.t, w.Stop(context.Background())) })
	return w
}

// status waits until the notification waits for that, and answers all about it.
func (r *rig) status(id string, cause control.Cause) *control.Status {
	r.t.Helper()
	var status *control.Status
	wait(r.t, func() bool {
		var err error
		status, err = r.control().Status(r.t.Context(), push.Ref{ID: id})
		must(r.t, err)
		if status.State.Ended() {
			r.t.Fatalf("%s has ended: %+v", id, status.Record)
		}
		return status.Waits.For == cause
	})
	return status
}

// What Redis holds is told by the counts and the queues, wherever it waits.
func TestBacklogAndAges(t *testing.T) {
	client := oneRedis(t)
	r := newRig(t, client, limits.New(throttle.Policy{MinGap: time.Hour}, nil))
	r.run()
	r.enqueue(to("now"))
	r.settled(1)
	r.enqueue(to("an-hour"))
	later := to("later")
	later.NotBefore = time.Now().Add(time.Hour)
	r.enqueue(later)
	jobs := func() map[store.JobState]int64 {
		all, err := store.ReadJobs(t.Context(), r.client, r.records)
		must(t, err)
		return store.SumJobs(all)["pushpace-default"]
	}
	wait(t, func() bool { return jobs()[store.JobPutOff] == 1 && jobs()[store.JobScheduled] == 1 })
	if got := jobs(); got[store.JobPending] != 0 || got[store.JobActive] != 0 || got[store.JobArchived] != 0 {
		t.Errorf("%v", got)
	}
	counts, err := r.records.Counts(t.Context())
	must(t, err)
	if counts.Waiting() != 2 || counts.Booked != 1 || counts.Letters != 0 {
		t.Errorf("%+v", counts)
	}
	must(t, control.New(r.client, r.records, r.limiter, r.options.Limits).Cancel(t.Context(), push.Ref{ID: "an-hour"}))
	if counts, err = r.records.Counts(t.Context()); err != nil || counts.Booked != 0 {
		t.Errorf("%+v, %v", counts, err)
	}
	r.seen.mu.Lock()
	defer r.seen.mu.Unlock()
	if len(r.seen.ages) != 2 || len(r.seen.took) != 1 || r.seen.took[0] <= 0 || r.seen.ages[0] > time.Minute {
		t.Errorf("ages %v, attempts %v", r.seen.ages, r.seen.took)
	}
}
