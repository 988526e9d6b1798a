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

// A log has the instants at which each notification of a plan was handed over and arrived, as
// time since the start.
type log struct {
	plan
	start time.Time
	half  chan struct{} // closed when half of the notifications have arrived

	delivered, firsts atomic.Int64 // notifications that arrived; those that no round puts off
	began             atomic.Int64 // when the first one arrived, in ns since the start

	mu       sync.Mutex
	handed   []time.Duration // before the producer handed it over; 0 for not yet
	arrivals []arrivals
	unknown  int // pushes that nobody handed over
}

// arrivals are a notification's at the stand-ins. The zero value is none.
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

// hand notes that the notifications from one index up to another are handed over now.
func (l *log) hand(from, upto int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Since(l.start)
	for i := from; i < upto; i++ {
		l.handed[i] = now
	}
}

// arrive notes a push that a stand-in took. It is the sink of the stand-ins' ledger.
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

// deliveryRate returns how many notifications arrived a second since the first one.
func (l *log) deliveryRate() float64 {
	since := time.Since(l.start) - time.Duration(l.began.Load())
	return float64(l.delivered.Load()) / since.Seconds()
}

// A verdict is the judgement of a log.
type verdict struct {
	violations int
	lost       int // handed over, and not arrived
	twice      int // arrived more than once
	putOff     int // by their users' limits
	// lateness is sorted: the time from the first instant at which the limits allowed each
	// notification to its arrival.
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

// clockError is the greatest difference between the limiter's clock, as it was measured once, and
// this machine's.
const clockError = 50 * time.Millisecond

// several returns the indexes of the notifications that were handed over, by user, of the
// users with more than one. No other user's limits can be broken.
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

// judge judges the log. The limits must hold exactly by the limiter's admissions, which it
// returned by ID for the users of several, and each push must lie behind its admission: so an
// admission that the limiter forged would show. The lateness is that of the notifications from
// index from on.
func (l *log) judge(admitted map[string]time.Time, several map[int][]int, from int) verdict {
	var v verdict
	if l.unknown > 0 {
		v.violate("%d pushes arrived that nobody handed over", l.unknown)
	}
	for i, at := range l.handed {
		a := l.arrivals[i]
		switch {
		case at > 0 && a.count == 0:
			v.lost++
		case at == 0 && a.count > 0:
			v.violate("%s arrived before it was handed over", l.notification(i).ID)
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

// judgeUser judges the notifications of one user by their admissions, which it returns.
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
			v.violate("%s was sent, and its limits have not admitted it", id)
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

// within returns the lateness that this share of the notifications, above 0 and up to 1, does
// not exceed; 0 for no notification.
func (v *verdict) within(share float64) time.Duration { return violations.Within(v.lateness, share) }
