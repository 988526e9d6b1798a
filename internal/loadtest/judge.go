package loadtest

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pushpace/pushpace/internal/violations"
	"github.com/pushpace/pushpace/providers/standin"
)

// A log records when each notification of a plan was enqueued and when it arrived, as time since
// the start.
type log struct {
	plan
	start time.Time
	half  chan struct{} // closed when half of the notifications have arrived

	delivered, firsts atomic.Int64 // arrived notifications; arrived notifications that no round puts off
	began             atomic.Int64 // when the first one arrived, in ns since the start

	mu       sync.Mutex
	handed   []time.Duration // instant before the producer enqueues it; 0 for not yet
	arrivals []arrivals
	unknown  int // pushes outside the plan
}

// arrivals are a notification's arrivals at the stand-ins. The zero value means none.
type arrivals struct {
	first, last time.Duration
	count       int32
}

func newLog(p plan) *log {
	return &log{
		plan: p, start: time.Now(), half: make(chan struct{}),
		handed: make([]time.Duration, p.notifications), arrivals: make([]arrivals, p.notifications),
	}
}

// hand records that the notifications from ≤ i < upto are enqueued now.
func (l *log) hand(from, upto int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Since(l.start)
	for i := from; i < upto; i++ {
		l.handed[i] = now
	}
}

// arrive records a push that a stand-in took. The stand-ins' ledger calls it.
func (l *log) arrive(e standin.Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, ok := l.index(e.Notification)
	if !ok {
		l.unknown++
		return nil
	}
	a, at := &l.arrivals[i], e.At.Sub(l.start)
	if a.count++; a.count > 1 {
		a.first, a.last = min(a.first, at), max(a.last, at)
		return nil
	}
	a.first, a.last = at, at
	if !l.putOff(i) {
		l.firsts.Add(1)
	}
	switch int(l.delivered.Add(1)) {
	case 1:
		l.began.Store(int64(at))
	case l.notifications / 2:
		close(l.half)
	}
	return nil
}

// deliveryRate returns the arrivals per second since the first arrival.
func (l *log) deliveryRate() float64 {
	since := time.Since(l.start) - time.Duration(l.began.Load())
	return float64(l.delivered.Load()) / since.Seconds()
}

// A verdict is the judgement of a log.
type verdict struct {
	violations int
	lost       int // enqueued, but not arrived
	twice      int // arrived more than once
	putOff     int // by their users' limits
	// lateness of each notification, sorted: from the first instant at which the limits allowed it
	// to its arrival.
	lateness []time.Duration
	faults   []string // the first violations, a line each
}

// maxFaults is how many violations a verdict describes.
const maxFaults = 10

func (v *verdict) violate(format string, args ...any) {
	if v.violations++; v.violations <= maxFaults {
		v.faults = append(v.faults, fmt.Sprintf(format, args...))
	}
}

// clockError is the largest accepted difference between this machine's clock and the limiter's,
// which was measured once.
const clockError = 50 * time.Millisecond

// several returns, for each user with more than one enqueued notification, their indexes. Only
// these users' limits can be broken.
func (l *log) several() map[int][]int {
	count := make([]int32, l.users)
	for i, at := range l.handed {
		if at > 0 {
			count[l.user(i)]++
		}
	}
	of := map[int][]int{}
	for i, at := range l.handed {
		if user := l.user(i); at > 0 && count[user] > 1 {
			of[user] = append(of[user], i)
		}
	}
	return of
}

// judge judges the log. admitted has the limiter's admissions by ID, for the users in several. The
// admissions must keep the limits exactly, and each push must come after its admission: this finds
// a limiter that reports false admissions. The lateness covers the notifications from index from
// on.
func (l *log) judge(admitted map[string]time.Time, several map[int][]int, from int) verdict {
	var v verdict
	if l.unknown > 0 {
		v.violate("%d pushes arrived that the bench has not enqueued", l.unknown)
	}
	for i, at := range l.handed {
		a := l.arrivals[i]
		switch {
		case at > 0 && a.count == 0:
			v.lost++
		case at == 0 && a.count > 0:
			v.violate("%s arrived before it was enqueued", l.notification(i).ID)
		}
		if a.count > 1 {
			v.twice++
		}
		if _, more := several[l.user(i)]; !more && i >= from && at > 0 && a.count > 0 {
			v.lateness = append(v.lateness, a.first-at)
		}
	}
	var pushes []violations.Push
	for user, all := range several {
		pushes = append(pushes, l.judgeUser(&v, user, all, admitted, from)...)
	}
	for _, found := range violations.Find(pushes, limits, nil, 0) {
		v.violate("%s got a notification %s too soon for the limit %s", found.User, found.Early, found.Rule)
	}
	slices.Sort(v.lateness)
	return v
}

// judgeUser judges the notifications of one user, and returns their admissions.
func (l *log) judgeUser(v *verdict, user int, all []int, admitted map[string]time.Time, from int) (pushes []violations.Push) {
	type push struct {
		i        int
		admitted time.Duration
	}
	var sent []push // in the order of their admissions
	for _, i := range all {
		if l.arrivals[i].count == 0 {
			continue
		}
		id := l.notification(i).ID
		at, ok := admitted[id]
		since := at.Sub(l.start)
		switch {
		case !ok:
			v.violate("%s was sent without an admission by its limits", id)
			continue
		case since > l.arrivals[i].last+clockError:
			v.violate("%s arrived %s before its limits admitted it", id, since-l.arrivals[i].last)
		case since < l.handed[i]-clockError:
			v.violate("the admission of %s is %s older than the notification", id, l.handed[i]-since)
		}
		sent = append(sent, push{i, since})
		pushes = append(pushes, violations.Push{App: appName, User: userName(user), At: at})
	}
	slices.SortFunc(sent, func(a, b push) int { return cmp.Compare(a.admitted, b.admitted) })
	for k, p := range sent {
		allowed := l.handed[p.i]
		if k > 0 {
			allowed = max(allowed, sent[k-1].admitted+limits.MinGap)
		}
		if rate := limits.Rates[0]; k >= rate.Count {
			allowed = max(allowed, sent[k-rate.Count].admitted+rate.Period)
		}
		if allowed > l.handed[p.i] {
			v.putOff++
		}
		if p.i >= from {
			v.lateness = append(v.lateness, max(0, l.arrivals[p.i].first-allowed))
		}
	}
	return pushes
}

// within returns the quantile of the lateness for a share above 0 and up to 1; 0 without
// notifications.
func (v *verdict) within(share float64) time.Duration { return violations.Within(v.lateness, share) }
