package fcmtest

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// A Quota allows Count messages in each fixed window, like Google. A message that is answered with
// 429 does not count. The zero value is no bound.
type Quota struct {
	Count int
	Per   time.Duration
	// Begins is when one of the windows begins. The zero value means a random instant for each
	// project and device: a sender never learns when Google's minutes begin.
	Begins time.Time
}

// left returns the remaining time of the window at now, given that a window begins at border.
func (q Quota) left(border, now time.Time) time.Duration {
	into := now.Sub(border) % q.Per
	if into < 0 {
		into += q.Per
	}
	return q.Per - into
}

// A Burst allows Count messages at once, and one more after each Every.
type Burst struct {
	Count int
	Every time.Duration
}

// quotas count the messages by name, which is a project or a device.
type quotas struct {
	of []Quota

	mu      sync.Mutex
	windows map[string][]window // by name, one for each of the quotas
}

type window struct {
	ends time.Time
	used int
}

func newQuotas(of ...Quota) quotas {
	return quotas{of: slices.DeleteFunc(slices.Clone(of), func(q Quota) bool { return q.Count <= 0 || q.Per <= 0 })}
}

// take counts a message of name, unless one of the quotas is used up: then it counts nothing, and
// returns the time until all have units again.
func (q *quotas) take(name string, now time.Time) (wait time.Duration, ok bool) {
	if len(q.of) == 0 {
		return 0, true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	windows := q.at(name, now)
	for i, w := range windows {
		if w.used >= q.of[i].Count {
			wait = max(wait, w.ends.Sub(now))
		}
	}
	if wait > 0 {
		return wait, false
	}
	for i := range windows {
		windows[i].used++
	}
	return 0, true
}

// giveBack subtracts a message of name that came at that instant and is answered with 429.
func (q *quotas) giveBack(name string, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, w := range q.windows[name] {
		if at.Before(w.ends) && w.ends.Sub(at) <= q.of[i].Per && w.used > 0 {
			q.windows[name][i].used--
		}
	}
}

// at returns the windows of name at now. It replaces an ended window by a new one.
func (q *quotas) at(name string, now time.Time) []window {
	windows, known := q.windows[name]
	if !known {
		if q.windows == nil {
			q.windows = make(map[string][]window)
		}
		windows = make([]window, len(q.of))
		for i, quota := range q.of {
			if windows[i].ends = quota.Begins; quota.Begins.IsZero() {
				windows[i].ends = now.Add(-rand.N(quota.Per))
			}
			windows[i].ends = now.Add(quota.left(windows[i].ends, now))
		}
		q.windows[name] = windows
	}
	for i, w := range windows {
		if !now.Before(w.ends) {
			windows[i] = window{ends: now.Add(q.of[i].left(w.ends, now))}
		}
	}
	return windows
}

// bursts count the messages of each device.
type bursts struct {
	burst Burst

	mu   sync.Mutex
	full map[string]time.Time // when the device's burst is full again
}

// take counts a message to the device, or returns the time until the next is allowed.
func (b *bursts) take(device string, now time.Time) (wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	full := b.full[device]
	if full.Before(now) {
		full = now
	}
	full = full.Add(b.burst.Every)
	if wait := full.Sub(now) - time.Duration(b.burst.Count)*b.burst.Every; wait > 0 {
		return wait, false
	}
	if b.full == nil {
		b.full = make(map[string]time.Time)
	}
	b.full[device] = full
	return 0, true
}
