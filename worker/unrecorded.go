package worker

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// unrecorded are notifications that this process has sent, and whose outcomes it
// could not record, by ID: so many as a process may well remember. A later visit
// records them, and sends nothing.
type unrecorded struct {
	kept *lru.Cache[string, attempt]
}

const unrecordedMost = 100_000

func newUnrecorded() unrecorded {
	kept, _ := lru.New[string, attempt](unrecordedMost) // which fails for sizes below 1
	return unrecorded{kept}
}

// An attempt is what is known of one that is not recorded.
type attempt struct {
	outcomes []outcome
	attempts int
	first    time.Time
	visits   int
	replay   bool
}

// keep keeps the delivery's attempt.
func (u unrecorded) keep(d *delivery) {
	u.kept.Add(d.ID, attempt{d.outcomes, d.attempts, d.first, d.visits, d.replay})
}

// take gives the delivery the attempt of the visit of its job before this one, if
// that is not recorded. After an older one another process has made a visit, and
// may have recorded it. A job that was put back on the queue from the dead letters
// is another one.
func (u unrecorded) take(d *delivery) bool {
	a, ok := u.kept.Get(d.ID)
	u.kept.Remove(d.ID)
	if !ok || a.visits+1 != d.visits || a.replay != d.replay {
		return false
	}
	d.outcomes, d.attempts, d.first = a.outcomes, a.attempts, a.first
	return true
}
