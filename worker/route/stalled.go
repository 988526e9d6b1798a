package route

import (
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/queue"
)

const (
	// A bulkhead is stalled when it is full, nothing has changed for several times as
	// long as a place is held on average, within these bounds, and half as many wait
	// for a place as there are. It still is when places are left for others, all at once
	// as by a time-out, and as many wait as may.
	leastIdle  = 100 * time.Millisecond
	idleFactor = 3
	leastSkip  = 3 * time.Second // which the queue takes for 2 to 3: its times are whole seconds
	stallKept  = 2 * time.Second // since nothing moved at last
	// Jobs stay as long again as nothing has changed, at most longestSkip.
	longestSkip = 8 * time.Second
	// skipGap lies between two jobs that were left on the queue, on the whole, so that
	// many of them do not keep the queue busy with coming and going.
	skipGap = 100 * time.Microsecond
)

// skipUntil is until when what is for the bulkhead and of the rank stays on the queue;
// zero when it may be pulled.
func (b *Bulkhead) skipUntil(rank int, now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	idle, many := b.stalledFor(rank, now, leastIdle), 2*b.queued() >= b.places
	switch {
	case idle >= maxIdle || many && idle >= max(leastIdle, idleFactor*time.Duration(b.meanHold)):
		b.stalled = now
	case now.Sub(b.stalled) <= stallKept && b.full(rank):
	default:
		return time.Time{}
	}
	until := now.Add(max(leastSkip, min(idle, longestSkip)))
	if last := time.Unix(0, b.skipped.Load()); rank > 0 && last.After(until) {
		return last
	}
	return until
}

// skippedUntil notes that so many jobs stay on the queue until then.
func (b *Bulkhead) skippedUntil(until time.Time, n int64) {
	b.skipped.Store(until.Add(time.Duration(n) * skipGap).UnixNano())
}

// Stalled returns what nothing is to be pulled for from that queue: see queue.Config.
// Critical ones find what a quota and a bulkhead keep for them.
func (rs *Routes) Stalled(name string, now time.Time) (all []queue.Stalled) {
	rank := rankOf(push.Default)
	if name == push.Critical.Queue() {
		rank = rankOf(push.Critical)
	}
	for r := range rs.All() {
		if r.Quota != nil && rank > 0 && r.Quota.Room(QuotaWait) == 0 {
			all = append(all, queue.Stalled{
				Mark: push.OnlyMark(r.App, r.Platform), Until: now.Add(r.Quota.Back(0)), InHand: r.Quota.Stats().Waiting,
				Skipped: func(n int64) {
					r.skip(n, now)
					r.Quota.Back(int(n))
				},
			})
		}
		if until := r.Bulkhead.skipUntil(rank, now); !until.IsZero() {
			taken, waiting := r.Bulkhead.load()
			all = append(all, queue.Stalled{
				Mark: push.OnlyMark(r.App, r.Platform), Until: until, InHand: taken + waiting,
				Skipped: func(n int64) {
					r.skip(n, now)
					if rank > 0 { // critical ones do not queue up behind others
						r.Bulkhead.skippedUntil(until, n)
					}
				},
			})
		}
	}
	return all
}

// skip notes that so many jobs stay on the queue.
func (r *Route) skip(n int64, now time.Time) {
	if n > 0 {
		r.skipped.Store(now.UnixNano())
	}
}

// SkippedSince reports whether this process has since left jobs on the queue, which may
// have been the route's.
func (r *Route) SkippedSince(t time.Time) bool { return r.skipped.Load() >= t.UnixNano() }
