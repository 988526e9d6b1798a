package throttle_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/internal/throttletest"
)

// A lane runs the jobs of one user against a limiter in virtual time. Each job asks up to 2 ms
// after its time, and the lane handles FollowUp as a worker does.
type lane struct {
	t       *testing.T
	limiter *throttle.Memory
	clock   time.Time
	random  *rand.Rand
	late    func(*rand.Rand) time.Duration
	lost    int // one in lost wake-ups is lost; 0 for none
	most    int // MaxBooked

	general throttle.Policy
	own     map[string]throttle.Policy // by category

	jobs  map[string]*laneJob
	order []*laneJob
	queue []laneComer // in order
	out   []*laneJob  // in the order of the grants
}

type laneJob struct {
	id, category string
	number       int
	told         time.Time // time of its next request; zero for none
	checks       int
	granted      time.Time
	rejected     bool
}

type laneComer struct {
	at, told time.Time
	job      *laneJob
}

var began = time.UnixMicro(1_700_000_000_000_000)

func newLane(t *testing.T, general throttle.Policy) *lane {
	l := &lane{t: t, clock: began, random: rand.New(rand.NewPCG(1, 2)), general: general, own: map[string]throttle.Policy{}, jobs: map[string]*laneJob{}}
	l.late = func(r *rand.Rand) time.Duration { return time.Duration(r.IntN(2000)) * time.Microsecond }
	var err error
	l.limiter, err = throttle.NewMemory(throttle.Options{Now: func() time.Time { return l.clock }})
	must(t, err)
	t.Cleanup(func() { _ = l.limiter.Close() })
	return l
}

func (l *lane) request(id, category string) throttle.Request {
	r := throttle.Request{User: "u", ID: id, Category: category, Horizon: 1000 * time.Hour, MaxBooked: l.most,
		Scopes: []throttle.Scope{{Name: throttle.General, Policy: l.general}}}
	if own, has := l.own[category]; has {
		r.Scopes = append(r.Scopes, throttle.Scope{Name: category, Policy: own})
	}
	return r
}

// add adds n jobs: the first at the time from, each later one by the duration apart later.
func (l *lane) add(category string, n int, from, apart time.Duration) {
	for i := range n {
		j := &laneJob{id: fmt.Sprint(category, "-", i), category: category, number: len(l.order)}
		l.jobs[j.id], l.order = j, append(l.order, j)
		j.told = began.Add(from + time.Duration(i)*apart)
		l.push(j, j.told)
	}
}

func (l *lane) push(j *laneJob, at time.Time) {
	i, _ := slices.BinarySearchFunc(l.queue, at.Add(1), func(c laneComer, at time.Time) int { return c.at.Compare(at) })
	l.queue = slices.Insert(l.queue, i, laneComer{at, j.told, j})
}

func (l *lane) tell(j *laneJob, at time.Time) {
	j.told = at
	l.push(j, at.Add(l.late(l.random)))
}

// placed wakes the early jobs, and reschedules the other lines once. It ignores After.
func (l *lane) placed(category string, p throttle.FollowUp) {
	var told []throttle.Booking
	for _, b := range p.Early {
		j := l.jobs[b.ID]
		if l.lost > 0 && l.random.IntN(l.lost) == 0 {
			continue
		}
		told = append(told, b)
		if b.Slot.Before(j.told) { // never before the zero time
			l.tell(j, later(b.Slot, l.clock))
		}
	}
	must(l.t, l.limiter.ClearEarly(l.t.Context(), l.request("", category), told))
	if len(p.Others) > 0 {
		var all []throttle.Request
		for _, line := range p.Others {
			all = append(all, l.request("", line.Category))
		}
		l.replan(all...)
	}
}

// replan reschedules lines, but ignores the answer's Others.
func (l *lane) replan(all ...throttle.Request) {
	placed, err := l.limiter.Replan(l.t.Context(), all)
	must(l.t, err)
	placed.Others = nil
	l.placed(all[0].Category, placed)
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// run makes all requests; with a positive until, only the requests that are due before. At the time
// when it calls then.
func (l *lane) run(until, when time.Duration, then func()) {
	for len(l.queue) > 0 {
		c := l.queue[0]
		if then != nil && !began.Add(when).After(c.at) {
			l.clock = began.Add(when)
			then()
			then = nil
			continue
		}
		l.queue = l.queue[1:]
		if !c.job.told.Equal(c.told) {
			continue // the job was woken for a different slot
		}
		if until > 0 && c.at.After(began.Add(until)) {
			return
		}
		l.clock = later(l.clock, c.at)
		l.come(c.job)
	}
}

func (l *lane) come(j *laneJob) {
	d, err := l.limiter.Acquire(l.t.Context(), l.request(j.id, j.category))
	must(l.t, err)
	if j.checks++; j.checks > 100 {
		l.t.Fatalf("%s starves", j.id)
	}
	switch d.Status {
	case throttle.Granted:
		j.told, j.granted, l.out = time.Time{}, d.At, append(l.out, j)
	case throttle.Deferred:
		l.tell(j, d.At)
	case throttle.Rejected:
		j.told, j.rejected = time.Time{}, true
	default:
		l.t.Fatalf("%s: %+v", j.id, d)
	}
	l.placed(j.category, d.FollowUp)
}

// costs fails if the average number of checks per delivery exceeds most.
func (l *lane) costs(most float64) {
	l.t.Helper()
	checks := 0
	for _, j := range l.out {
		checks += j.checks
	}
	n := float64(checks) / float64(len(l.out))
	l.t.Logf("%d were sent with %.2f checks each", len(l.out), n)
	if n > most {
		l.t.Errorf("a delivery takes %.2f checks, want %.1f at most", n, most)
	}
}

// inOrder fails if a job was sent before an earlier one of its category.
func (l *lane) inOrder() {
	l.t.Helper()
	last := map[string]*laneJob{}
	for _, j := range l.out {
		if before := last[j.category]; before != nil && before.number > j.number {
			l.t.Errorf("%s is sent after %s", j.id, before.id)
		}
		last[j.category] = j
	}
}

// all fails unless n jobs were sent.
func (l *lane) all(n int) {
	l.t.Helper()
	if len(l.out) != n {
		l.t.Fatalf("%d were sent, want %d", len(l.out), n)
	}
}

func gapAndRates(gap time.Duration, all ...throttle.Rate) throttle.Policy {
	return throttle.Policy{MinGap: gap, Rates: all}
}

var hourly = gapAndRates(time.Second, throttle.Rate{Count: 10, Period: time.Minute})

// Notifications that all ask at the start, and again on time, ask twice each. They are granted in order, on
// the ideal schedule of their limits, also if several categories share the general limits.
func TestBacklogDrainsOnSchedule(t *testing.T) {
	t.Parallel()
	rate := func(count int, period time.Duration) throttle.Rate {
		return throttle.Rate{Count: count, Period: period}
	}
	gap := gapAndRates(300 * time.Millisecond)
	both := gapAndRates(300*time.Millisecond, rate(20, 10*time.Second))
	for name, tt := range map[string]struct {
		general throttle.Policy
		own     []throttle.Policy // of each category
	}{
		"a gap":             {gap, nil},
		"a rate":            {gapAndRates(0, rate(10, 5*time.Second)), nil},
		"a gap and a rate":  {gapAndRates(300*time.Millisecond, rate(10, 5*time.Second)), nil},
		"a gap, two rates":  {gapAndRates(time.Second, rate(10, time.Minute), rate(100, time.Hour)), nil},
		"a rate of 1":       {gapAndRates(0, rate(1, time.Second)), nil},
		"a fast rate":       {gapAndRates(0, rate(12, 240*time.Millisecond)), nil},
		"a rate far longer": {gapAndRates(50*time.Millisecond, rate(7, 10*time.Minute)), nil},

		"the general limits bind": {gap, []throttle.Policy{gapAndRates(0, rate(20, 10*time.Second)), gapAndRates(500 * time.Millisecond), {}}},
		"one category is slow":    {both, []throttle.Policy{gapAndRates(3 * time.Second), {}, {}}},
		"the categories bind":     {both, []throttle.Policy{gapAndRates(0, rate(5, 10*time.Second)), gapAndRates(2 * time.Second), gapAndRates(0, rate(4, 5*time.Second))}},
		"all bind in turn":        {both, []throttle.Policy{gapAndRates(0, rate(5, 10*time.Second)), gapAndRates(2 * time.Second), gapAndRates(0, rate(8, 5*time.Second))}},
		"marketing and chat":      {hourly, []throttle.Policy{gapAndRates(0, rate(1, 10*time.Minute)), {}, gapAndRates(time.Minute)}},
		"marketing alone":         {hourly, []throttle.Policy{gapAndRates(0, rate(1, 10*time.Minute))}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLane(t, tt.general)
			l.late = func(*rand.Rand) time.Duration { return 0 }
			const n = 60
			if tt.own == nil {
				l.add("", n, 0, 0)
			}
			for i, own := range tt.own {
				category := string(rune('a' + i))
				l.own[category] = own
				l.add(category, n/len(tt.own), time.Duration(i)*time.Microsecond, time.Duration(len(tt.own))*time.Microsecond) // in turn
			}
			slices.SortStableFunc(l.order, func(a, b *laneJob) int { return a.told.Compare(b.told) })
			l.run(0, 0, nil)
			l.all(n)
			l.costs(2)
			l.inOrder()
			requests := make([]throttle.Request, n)
			for i, j := range l.order {
				requests[i] = l.request(j.id, j.category)
			}
			var last, idealLast, waits, idealWaits time.Duration
			for i, at := range throttletest.Ideal(requests, began) {
				wait, ideal := l.order[i].granted.Sub(began), at.Sub(began)
				last, waits = max(last, wait), waits+wait
				idealLast, idealWaits = max(idealLast, ideal), idealWaits+ideal
			}
			most := 1.02
			if tt.own != nil {
				most = 1.03
			}
			if float64(last) > most*float64(idealLast) || float64(waits) > most*float64(idealWaits) {
				t.Errorf("the last is sent after %s, want %s; the waits sum to %s, want %s", last, idealLast, waits, idealWaits)
			}
		})
	}
}

func TestDeferralCostInLongLine(t *testing.T) {
	t.Parallel()
	l := newLane(t, hourly)
	l.add("", 60, 0, 2*time.Millisecond)
	l.run(0, 0, nil)
	l.all(60)
	l.costs(2.3)
	l.inOrder()
}

// The gap is raised from 1 s to 60 s for a long line, with a replan or without.
func TestDeferralCostAfterLoweredLimit(t *testing.T) {
	t.Parallel()
	for _, told := range []bool{true, false} {
		t.Run(fmt.Sprint("told ", told), func(t *testing.T) {
			t.Parallel()
			l := newLane(t, gapAndRates(time.Second))
			l.add("", 200, 0, 0)
			l.run(0, 5*time.Second, func() {
				if l.general = gapAndRates(time.Minute); told {
					l.replan(l.request("", ""))
				}
			})
			l.all(200)
			l.costs(3.1)
			l.inOrder()
		})
	}
}

// A pause of 300 slots holds all jobs; then all of them ask at once.
func TestDeferralCostAfterPause(t *testing.T) {
	t.Parallel()
	l := newLane(t, gapAndRates(3*time.Second))
	l.add("", 300, 0, 0)
	l.run(0, 5*time.Second, func() {
		held := slices.Clone(l.order)
		slices.SortStableFunc(held, func(a, b *laneJob) int { return a.told.Compare(b.told) })
		l.queue = nil
		for _, j := range held {
			if !j.told.IsZero() {
				l.push(j, later(j.told, l.clock.Add(15*time.Minute)))
			}
		}
	})
	l.all(300)
	l.costs(3.1)
	l.inOrder()
}

func TestDeferralCostWithLateJobs(t *testing.T) {
	t.Parallel()
	l := newLane(t, hourly)
	l.own["m"] = gapAndRates(0, throttle.Rate{Count: 3, Period: 30 * time.Second})
	l.late = func(r *rand.Rand) time.Duration {
		if r.IntN(20) == 0 {
			return 200*time.Millisecond + time.Duration(r.IntN(2800))*time.Millisecond
		}
		return time.Duration(r.IntN(5000)) * time.Microsecond
	}
	l.add("m", 70, 0, 10*time.Millisecond)
	l.add("", 130, 0, 10*time.Millisecond)
	l.run(0, 0, nil)
	l.all(200)
	l.costs(3.5)
}

// A limit is raised and the line rescheduled; one in twenty wake-ups is lost.
func TestRaisedLimitDrainsAtItsRate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		waiting int
		raised  throttle.Policy
		most    time.Duration // 1.1 times the ideal
		checks  float64
	}{
		{300, gapAndRates(time.Second), 298 * 11 / 10 * time.Second, 2.3},
		{900, gapAndRates(0, throttle.Rate{Count: 100, Period: time.Second}), 8800 * time.Millisecond, 2.3},
	} {
		t.Run(fmt.Sprint(tt.raised), func(t *testing.T) {
			t.Parallel()
			l := newLane(t, gapAndRates(time.Minute))
			l.lost = 20
			l.late = func(*rand.Rand) time.Duration { return time.Millisecond } // one worker asks in order
			l.add("", tt.waiting, 0, 0)
			const when = 100 * time.Second
			l.run(0, when, func() {
				l.general = tt.raised
				l.replan(l.request("", ""))
			})
			l.all(tt.waiting)
			l.costs(tt.checks)
			if tt.raised.MinGap > 0 { // jobs due at the same time may swap
				l.inOrder()
			}
			last := l.out[len(l.out)-1].granted
			if took := last.Sub(began.Add(when)); took > tt.most {
				t.Errorf("it takes %v, want %v at most", took, tt.most)
			}
		})
	}
}

// A stream uses up the general limit. The jobs of the category rare, which may send one in 20 s,
// are on time.
func TestBusyCategoryDelaysNoOtherCategory(t *testing.T) {
	t.Parallel()
	l := newLane(t, gapAndRates(time.Second))
	l.own["rare"] = gapAndRates(20 * time.Second)
	l.add("rare", 10, 0, time.Millisecond)
	l.add("stream", 200, 0, 500*time.Millisecond)
	l.run(100*time.Second, 0, nil)
	l.costs(2.3)
	l.inOrder()
	n := 0
	for _, j := range l.out {
		if j.category == "rare" {
			if late := j.granted.Sub(began.Add(time.Duration(n) * 20 * time.Second)); late > time.Second {
				t.Errorf("%s is sent %v late", j.id, late)
			}
			n++
		}
	}
	if n < 5 {
		t.Errorf("%d of the rare ones are sent", n)
	}
}

// A full line rejects each new notification at once, but none of the notifications that wait in it.
func TestFullLineRejectsFlood(t *testing.T) {
	t.Parallel()
	l := newLane(t, hourly)
	const most, flood = 300, 500
	l.most = most
	l.add("", flood, 0, time.Millisecond)
	l.run(2*time.Minute, 0, nil)
	rejected, waiting := 0, 0
	for _, j := range l.order {
		if j.rejected {
			rejected++
		} else if j.granted.IsZero() {
			waiting++
		}
	}
	l.inOrder()
	// at most 20 notifications, at 10 a minute, are sent before the line is full
	if rejected < flood-most-20 || rejected > flood-most || waiting+len(l.out)+rejected != flood {
		t.Errorf("%d are sent, %d wait and %d are rejected", len(l.out), waiting, rejected)
	}
	for _, j := range l.order[len(l.order)-100:] {
		if !j.rejected || j.checks != 1 {
			t.Errorf("%s came when the line was full: rejected %t after %d checks", j.id, j.rejected, j.checks)
		}
	}
}
