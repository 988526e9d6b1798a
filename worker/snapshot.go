package worker

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/base/slidingstats"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/clock"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/route"
)

// identify returns the constant fields of the worker's snapshots.
func identify(o *Options) control.Snapshot {
	pid := os.Getpid()
	return control.Snapshot{
		ID:   fmt.Sprintf("%s-%d-%s", o.host, pid, rand.Text()[:8]),
		Host: o.host, PID: pid, Version: o.Version, Started: time.Now().UTC(), Concurrency: o.Concurrency,
	}
}

// snapshotInterval is the interval between two snapshots. It bounds the age of the data in overview and
// console.
const snapshotInterval = time.Second

// publishSnapshots publishes this worker's state every snapshotInterval until ctx ends.
func (w *Worker) publishSnapshots(ctx context.Context) {
	unseen := clock.Trouble{Log: w.h.RedisLog, Begins: "this worker is not listed: its snapshot cannot be written"}
	refused := clock.Trouble{Log: w.h.RedisLog, Begins: "the throughput lacks this worker's counts: Redis refuses them"}
	clock.Every(ctx, snapshotInterval, func() {
		if err := w.addMinutes(ctx, w.tally.completeMinutes(time.Now())); redisreply.Of(err) == redisreply.None { // another part logs troubles of Redis
			refused.Failing(ctx, err)
		}
		s := w.Snapshot()
		unseen.Failing(ctx, control.PublishSnapshot(ctx, w.h.Queue, w.h.Prefix, &s))
	})
	last, cancel := context.WithTimeout(context.Background(), clock.LastTimeout)
	defer cancel()
	_ = w.addMinutes(last, w.tally.minutes(time.Now()))
	_ = control.RemoveSnapshot(last, w.h.Queue, w.h.Prefix, w.self.ID) // it expires in some seconds anyway
}

// addMinutes adds this worker's per-minute counts to the sums of all workers. If Redis is in
// trouble, the next call repeats them.
func (w *Worker) addMinutes(ctx context.Context, minutes []control.Minute) error {
	if len(minutes) == 0 {
		return nil
	}
	last := &minutes[len(minutes)-1]
	if counts, err := w.h.records.Counts(ctx); err == nil {
		last.Waiting = new(max(0, counts.Waiting()))
	}
	err := control.AddMinutes(ctx, w.h.Queue, w.h.Prefix, minutes)
	if redisreply.Of(err) == redisreply.None { // they are added, or Redis would refuse them again
		w.tally.markAdded(last.At)
	}
	return err
}

// Snapshot returns the present state of the worker.
func (w *Worker) Snapshot() control.Snapshot {
	s := w.self
	s.At = time.Now().UTC()
	s.Draining = w.draining.Load()
	s.Pulls = w.Pulls()
	s.Routes = w.Routes()
	for _, q := range w.Quotas() {
		s.Quotas = append(s.Quotas, route.QuotaStatusOf(q))
	}
	s.Minutes = slices.DeleteFunc(w.tally.minutes(s.At), func(m control.Minute) bool { return !m.Done() })
	s.LateP99 = w.tally.lateness(s.At)
	if limiter, ok := w.h.Limiter.(interface{ Stats() throttle.OutageStats }); ok {
		if stats := limiter.Stats(); !stats.Since.IsZero() {
			s.Limits = control.LimitsOutage{Since: stats.Since.UTC(), Cause: route.CauseOf(stats.Cause)}
		}
	}
	if _, cluster := pipeline.OfCluster(w.h.Queue); cluster {
		s.Silent = w.h.records.LastWaitingBefore(s.At.Add(-4 * control.SumsEvery)) // no answer to several calls
	}
	if w.h.ClockOffset != nil {
		s.RedisAheadBy = w.h.ClockOffset()
	}
	return s
}

// A tally counts the worker's events and passes them on to its Observer.
type tally struct {
	Observer
	sent, deferred atomic.Int64
	ended          []atomic.Int64 // by index in countedStates
	late           slidingstats.Histogram

	mu                 sync.Mutex
	counts, latenesses slidingstats.Series
	added              time.Time // start of the last minute that is in Redis
}

func newTally(o Observer) *tally {
	return &tally{Observer: o, ended: make([]atomic.Int64, len(countedStates))}
}

// countedStates are the states that tally.ended counts.
var countedStates = append(slices.Clip(store.EndStates), store.Malformed)

func (t *tally) Attempted(app string, platform push.Platform, o providers.Outcome, took time.Duration) {
	t.sent.Add(1)
	t.Observer.Attempted(app, platform, o, took)
}

func (t *tally) Deferred(app, category string, d throttle.Decision) {
	t.deferred.Add(1)
	t.Observer.Deferred(app, category, d)
}

func (t *tally) Paced(lateness time.Duration) {
	t.late.Add(lateness)
	t.Observer.Paced(lateness)
}

func (t *tally) Ended(state push.State) {
	if i := slices.Index(countedStates, state); i >= 0 { // else a newer version has ended it
		t.ended[i].Add(1)
	}
	t.Observer.Ended(state)
}

// minutes returns the counts of the last 15 minutes, without the minutes that are in Redis. The current
// minute is last.
func (t *tally) minutes(now time.Time) (minutes []control.Minute) {
	t.mu.Lock()
	defer t.mu.Unlock()
	counts := []int64{t.sent.Load(), t.deferred.Load()}
	for i := range t.ended {
		counts = append(counts, t.ended[i].Load())
	}
	t.counts.Sample(now, counts)
	for at, n := range t.counts.Minutes() {
		if !at.After(t.added) {
			continue
		}
		m := control.Minute{At: at, Sent: n[0], Deferred: n[1], Ended: map[push.State]int64{}}
		for i, ended := range n[2:] {
			if ended > 0 {
				m.Ended[countedStates[i]] = ended
			}
		}
		minutes = append(minutes, m)
	}
	return minutes
}

// completeMinutes is minutes without the current one.
func (t *tally) completeMinutes(now time.Time) []control.Minute {
	return slices.DeleteFunc(t.minutes(now), func(m control.Minute) bool { return m.At.Add(time.Minute).After(now) })
}

// markAdded stores the start of the newest minute in Redis.
func (t *tally) markAdded(newest time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.added = newest
}

// lateness returns the 99th percentile of the time from slot to admission.
func (t *tally) lateness(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.latenesses.Sample(now, t.late.Counts())
	return slidingstats.Quantile(t.latenesses.Growth(slidingstats.Window), .99)
}
