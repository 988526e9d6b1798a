package worker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/queue"
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

func TestRoutesTellWhatIsInFlight(t *testing.T) {
	r := newRig(t, oneRedis(t), unlimited)
	r.options.Concurrency, r.options.ShutdownTimeout = 1, time.Second
	w := r.run()
	r.apns.RespondAlways(standin.Answer{Delay: time.Second})
	const n = 10
	for i := range n {
		r.enqueue(to(fmt.Sprint("slow-", i)))
	}
	wait(t, func() bool { s := statusOf(t, w, "shop", push.APNs); return s.InFlight == 1 && s.Queued > 0 })
	r.apns.Recover()
	r.settled(n)
	wait(t, func() bool { s := statusOf(t, w, "shop", push.APNs); return s.InFlight == 0 && s.Queued == 0 })
}

// What Redis holds is told by the counts and the queues, wherever it waits.
func TestBacklogAndAges(t *testing.T) {
	client := oneRedis(t)
	r := newRig(t, client, limits.New(throttle.Policy{MinGap: time.Hour}, nil))
	w := r.run()
	r.enqueue(to("now"))
	r.settled(1)
	r.enqueue(to("an-hour"))
	later := to("later")
	later.NotBefore = time.Now().Add(time.Hour)
	r.enqueue(later)
	jobs := func() map[queue.JobState]int64 {
		all, err := queue.ReadJobs(t.Context(), r.client, r.records)
		must(t, err)
		return queue.Sum(all)["pushpace-default"]
	}
	wait(t, func() bool { return jobs()[queue.JobPutOff] == 1 && jobs()[queue.JobScheduled] == 1 })
	if got := jobs(); got[queue.JobPending] != 0 || got[queue.JobActive] != 0 || got[queue.JobArchived] != 0 {
		t.Errorf("%v", got)
	}
	counts, err := r.records.Counts(t.Context())
	must(t, err)
	if counts.Waiting() != 2 || counts.Booked != 1 || counts.Letters != 0 {
		t.Errorf("%+v", counts)
	}
	if n := w.Waiting(); n != 0 {
		t.Errorf("%d wait in the process", n)
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

// A visit counts as the first one once, however often the notification comes back.
func TestOnlyTheFirstVisitHasAnAge(t *testing.T) {
	const n = 3
	r := newRig(t, oneRedis(t), limits.New(throttle.Policy{MinGap: time.Second}, nil))
	r.options.MaxWait = 100 * time.Millisecond // the others go back
	for i := range n {
		r.enqueue(to("paced-" + string(rune('a'+i))))
	}
	r.start() // they come at once, so that the last have to go back
	counts := r.settled(n)
	if counts.Booked != 0 {
		t.Errorf("%d are booked", counts.Booked)
	}
	_, deferrals := r.seen.counts()
	r.seen.mu.Lock()
	defer r.seen.mu.Unlock()
	if len(r.seen.ages) != n || deferrals == 0 {
		t.Errorf("%d first visits of %d notifications, %d deferrals", len(r.seen.ages), n, deferrals)
	}
}
