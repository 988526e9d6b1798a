package worker

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"time"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/clock"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/route"
)

// identify returns the beginning of the worker's snapshots.
func identify(o *Options) control.Snapshot {
	pid := os.Getpid()
	return control.Snapshot{
		ID:   fmt.Sprintf("%s-%d-%s", o.host, pid, rand.Text()[:8]),
		Host: o.host, PID: pid, Version: o.Version, Started: time.Now().UTC(), Lanes: o.Lanes, Concurrency: o.Concurrency,
	}
}

// leaveSnapshots has others know what only this worker knows, until it stops.
func (w *Worker) leaveSnapshots(ctx context.Context) {
	unseen := clock.Trouble{Log: w.h.RedisLog, Begins: "others do not see this worker: it cannot leave its snapshot"}
	clock.Every(ctx, w.h.times.snapshot, func() {
		s := w.Snapshot()
		unseen.Failing(ctx, control.LeaveSnapshot(ctx, w.h.Queue, w.h.Prefix, &s))
	})
	last, cancel := context.WithTimeout(context.Background(), lastWord)
	defer cancel()
	_ = control.DropSnapshot(last, w.h.Queue, w.h.Prefix, w.self.ID) // it is forgotten in some seconds anyway
}

// lastWord is how long it takes at most to tell that the worker has stopped.
const lastWord = 3 * time.Second

// Snapshot returns what the worker knows right now.
func (w *Worker) Snapshot() control.Snapshot {
	s := w.self
	s.At = time.Now().UTC()
	s.Draining = w.draining.Load()
	s.Pulls, s.Waiting = w.Pulls(), w.Waiting()
	s.Routes = w.Routes()
	if store, ok := w.h.Limiter.(interface{ Stats() throttle.OutageStats }); ok {
		if stats := store.Stats(); !stats.Since.IsZero() {
			s.Limits = control.LimitsAway{Since: stats.Since.UTC(), Cause: route.CauseOf(stats.Cause)}
		}
	}
	if w.h.ClockOffset != nil {
		s.RedisAheadBy = w.h.ClockOffset()
	}
	return s
}
