package worker

import (
	"maps"
	"sync"
	"time"
)

// unrecorded are notifications that this process has sent, and whose outcomes it
// could not record. A later visit records them, and sends nothing. The zero value is
// ready to use.
type unrecorded struct {
	mu     sync.Mutex
	kept   map[string]attempt // by ID
	pruned time.Time
}

// An attempt is what is known of one that is not recorded.
type attempt struct {
	outcomes []outcome
	attempts int
	first    time.Time
	visits   int
	replay   bool
	at       time.Time
}

// Attempts are kept for so long: another process may have settled them. While
// there are so many, no more are kept.
const (
	unrecordedFor  = time.Hour
	unrecordedMost = 100_000
)

// keep keeps the delivery's attempt.
func (u *unrecorded) keep(d *delivery) {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.kept == nil {
		u.kept = make(map[string]attempt)
	}
	if now.Sub(u.pruned) > unrecordedFor/10 {
		u.pruned = now
		maps.DeleteFunc(u.kept, func(_ string, a attempt) bool { return now.Sub(a.at) > unrecordedFor })
	}
	if len(u.kept) < unrecordedMost {
		u.kept[d.ID] = attempt{d.outcomes, d.attempts, d.first, d.visits, d.replay, now}
	}
}

// take gives the delivery the attempt of the visit of its job before this one, if
// that is not recorded. After an older one another process has made a visit, and
// may have recorded it. A job that was put back on the queue from the dead letters
// is another one.
func (u *unrecorded) take(d *delivery) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	a, ok := u.kept[d.ID]
	if !ok {
		return false
	}
	delete(u.kept, d.ID)
	if a.visits+1 != d.visits || a.replay != d.replay {
		return false
	}
	d.outcomes, d.attempts, d.first = a.outcomes, a.attempts, a.first
	return true
}
