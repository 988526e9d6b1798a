package throttletest

import (
	"container/heap"
	"fmt"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// A backlog is a set of notifications that all ask at the start, and again at Decision.At.
type backlog struct {
	*stage
	jobs  []*job
	queue wakeups
	start time.Time
	now   time.Time
	list  plainList
}

type job struct {
	request  throttle.Request
	asks     int
	wakeup   time.Time
	admitted time.Time // zero while it waits
}

type wakeup struct {
	at  time.Time
	n   int // orders wake-ups of the same time
	job *job
}

type wakeups []wakeup

func (w wakeups) Len() int { return len(w) }
func (w wakeups) Less(i, j int) bool {
	if c := w[i].at.Compare(w[j].at); c != 0 {
		return c < 0
	}
	return w[i].n < w[j].n
}
func (w wakeups) Swap(i, j int) { w[i], w[j] = w[j], w[i] }
func (w *wakeups) Push(x any)   { *w = append(*w, x.(wakeup)) }
func (w *wakeups) Pop() any {
	last := len(*w) - 1
	x := (*w)[last]
	*w = (*w)[:last]
	return x
}

// backlog returns n notifications for each list of scopes, which ask in turn.
func (s *stage) backlog(n int, kinds ...[]throttle.Scope) *backlog {
	b := &backlog{stage: s}
	user := s.user()
	for i := range n * len(kinds) {
		b.jobs = append(b.jobs, &job{request: throttle.Request{
			User: user, ID: fmt.Sprintf("n%05d", (i*7919)%100_000), Scopes: kinds[i%len(kinds)], Horizon: 10_000 * time.Hour}})
	}
	t, err := s.Limiter.Timeline(s.Context(), b.jobs[0].request)
	if err != nil {
		s.Fatal(err)
	}
	b.start, b.now = t.Now, t.Now
	return b
}

func (b *backlog) at(when time.Time, j *job) {
	if when.Before(b.now) {
		when = b.now
	}
	j.wakeup = when
	heap.Push(&b.queue, wakeup{when, len(b.queue) + 1, j})
}

// drain runs until no notification waits. It fails after far more calls than promised.
func (b *backlog) drain() {
	b.Helper()
	for _, j := range b.jobs {
		b.at(b.start, j)
	}
	for calls := 0; len(b.queue) > 0; {
		next := heap.Pop(&b.queue).(wakeup)
		j := next.job
		if !j.admitted.IsZero() || !next.at.Equal(j.wakeup) {
			continue // woken for a different slot
		}
		b.to(next.at)
		if calls++; calls > 50*len(b.jobs) {
			b.Fatalf("after %d calls %d of %d are admitted", calls, len(b.list), len(b.jobs))
		}
		j.asks++
		d := b.acquire(b, j.request)
		switch d.Status {
		case throttle.Granted:
			if fault := b.list.fault(j.request, d.At); fault != "" {
				b.Fatalf("%s", fault)
			}
			j.admitted = d.At
			b.list = b.list.with(j.request, d.At)
		case throttle.Deferred:
			b.at(d.At, j)
		default:
			b.Fatalf("%s is %s: %+v", j.request.ID, d.Status, d)
		}
		b.follow(j.request, d.FollowUp)
	}
	for _, j := range b.jobs {
		if j.admitted.IsZero() {
			b.Fatalf("%s still waits", j.request.ID)
		}
	}
}

// follow wakes the early jobs of a call, as a worker does.
func (b *backlog) follow(r throttle.Request, placed throttle.FollowUp) {
	b.Helper()
	early := b.settle(b, r, placed, func(category string) []throttle.Scope {
		for _, j := range b.jobs {
			if s := j.request.Scopes; len(s) > 1 && s[1].Name == category || len(s) == 1 && category == "" {
				return s
			}
		}
		return nil
	})
	for _, booking := range early {
		for _, j := range b.jobs {
			if j.request.ID == booking.ID && j.admitted.IsZero() && booking.Slot.Before(j.wakeup) {
				b.at(booking.Slot, j)
			}
		}
	}
	if err := b.Limiter.ClearEarly(b.Context(), r, early); err != nil {
		b.Fatal(err)
	}
}

func (b *backlog) to(when time.Time) {
	if d := when.Sub(b.now); d > 0 {
		b.Advance(d)
		b.now = when
	}
}

// figures are the costs of a drained backlog.
type figures struct {
	asks     float64 // calls per notification
	makespan float64 // relative to the ideal schedule
	waits    float64 // the sum of the waits, relative to the ideal schedule
}

func (b *backlog) figures() figures {
	requests := make([]throttle.Request, len(b.jobs))
	for i, j := range b.jobs {
		requests[i] = j.request
	}
	var f figures
	var last, idealLast, sum, idealSum time.Duration
	perfect := ideal(requests, b.start)
	for i, j := range b.jobs {
		f.asks += float64(j.asks)
		last, idealLast = max(last, j.admitted.Sub(b.start)), max(idealLast, perfect[i].Sub(b.start))
		sum += j.admitted.Sub(b.start)
		idealSum += perfect[i].Sub(b.start)
	}
	f.asks /= float64(len(b.jobs))
	f.makespan, f.waits = float64(last)/float64(idealLast), float64(sum)/float64(idealSum)
	return f
}

// within checks the figures.
func (b *backlog) within(name string, most figures) {
	b.Helper()
	f := b.figures()
	b.Logf("%s: %.2f calls each, makespan %.3f and waits %.3f of the ideal schedule", name, f.asks, f.makespan, f.waits)
	if f.asks > most.asks || f.makespan > most.makespan || f.waits > most.waits {
		b.Errorf("%s: %+v, want at most %+v", name, f, most)
	}
}

// ordered checks that each category was granted in the order of its requests.
func (b *backlog) ordered(name string) {
	b.Helper()
	admitted := map[string][]time.Time{}
	for _, j := range b.jobs {
		category := j.request.Scopes[len(j.request.Scopes)-1].Name
		admitted[category] = append(admitted[category], j.admitted)
	}
	for category, instants := range admitted {
		if !inOrder(instants) {
			b.Errorf("%s: those of %s are admitted out of order", name, category)
		}
	}
}

var backlogPolicies = map[string]throttle.Policy{
	"a gap":             policy(300 * time.Millisecond),
	"a rate":            policy(0, rate(10, 5*time.Second)),
	"a gap and a rate":  policy(300*time.Millisecond, rate(10, 5*time.Second)),
	"a gap, two rates":  policy(time.Second, rate(10, time.Minute), rate(100, time.Hour)),
	"a rate of 1":       policy(0, rate(1, time.Second)),
	"a fast rate":       policy(0, rate(12, 240*time.Millisecond)),
	"a rate far longer": policy(50*time.Millisecond, rate(7, 10*time.Minute)),
}

const backlogSize = 150

// oneBacklog: notifications that ask on time ask twice each, and are granted in order, on the
// ideal schedule of their limits.
func oneBacklog(s *stage) {
	for _, name := range sortedKeys(backlogPolicies) {
		b := s.backlog(s.size(backlogSize), scopes(backlogPolicies[name], "", throttle.Policy{}))
		b.drain()
		b.ordered(name)
		b.within(name, figures{asks: 2, makespan: 1.02, waits: 1.02})
	}
}

// severalBacklogs is oneBacklog for categories that share the general limits; the general or the
// category's limits bind.
func severalBacklogs(s *stage) {
	for _, tt := range []struct {
		name    string
		general throttle.Policy
		own     []throttle.Policy
	}{
		{"the general limits bind", policy(300 * time.Millisecond), []throttle.Policy{
			policy(0, rate(20, 10*time.Second)), policy(500 * time.Millisecond), policy(0)}},
		{"one category is slow", policy(300*time.Millisecond, rate(20, 10*time.Second)), []throttle.Policy{
			policy(3 * time.Second), policy(0), policy(0)}},
		{"the categories bind", policy(300*time.Millisecond, rate(20, 10*time.Second)), []throttle.Policy{
			policy(0, rate(5, 10*time.Second)), policy(2 * time.Second), policy(0, rate(4, 5*time.Second))}},
		{"all bind in turn", policy(300*time.Millisecond, rate(20, 10*time.Second)), []throttle.Policy{
			policy(0, rate(5, 10*time.Second)), policy(2 * time.Second), policy(0, rate(8, 5*time.Second))}},
		{"marketing and chat", policy(time.Second, rate(10, time.Minute)), []throttle.Policy{
			policy(0, rate(1, 10*time.Minute)), policy(0), policy(time.Minute)}},
	} {
		for n := 1; n <= 3; n++ {
			if s.harness.Slow && n == 2 {
				continue
			}
			var kinds [][]throttle.Scope
			for i, own := range tt.own[:n] {
				kinds = append(kinds, scopes(tt.general, []string{"a", "b", "c"}[i], own))
			}
			b := s.backlog(s.size(backlogSize)/n, kinds...)
			b.drain()
			b.ordered(tt.name)
			b.within(fmt.Sprintf("%s, %d categories", tt.name, n), figures{asks: 2, makespan: 1.03, waits: 1.03})
		}
	}
}
