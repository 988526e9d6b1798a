package published

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/throttle"
)

// took makes an attempt at now, in µs.
type took func(now int64) Result

// inMemory returns the limiters in memory, with a rate of ten in 100 ms.
func inMemory(t rapid.TB, clock *virtual) map[string]took {
	rate := throttle.Rate{Count: 10, Period: 100 * time.Millisecond}
	w, err := NewWeightedWindow(rate, clock.now)
	must(t, err)
	b, err := NewFlooredBucket(rate, 10, clock.now)
	must(t, err)
	at := func(limit func(string) Result) took {
		return func(now int64) Result {
			clock.us = now
			return limit("u1")
		}
	}
	return map[string]took{"window": at(w.Limit), "bucket": at(b.Limit)}
}

func TestNextAttemptPassesAfterTimeLeft(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		for name, attempt := range inMemory(t, new(virtual)) {
			for now := int64(0); now < 400_000; now += int64(rapid.IntRange(0, 20_000).Draw(t, "later")) {
				r := attempt(now)
				if !r.Blocked {
					continue
				}
				left := r.Left.Microseconds()
				if left > 1 && !attempt(now+left-1).Blocked {
					t.Fatalf("%s: one is let through before %d", name, now+left)
				}
				if now += left; attempt(now).Blocked {
					t.Fatalf("%s: none is let through at %d", name, now)
				}
			}
		}
	})
}

// The largest number in a period is one less than twice the count.
func TestWeightedWindowAllowsAlmostTwiceTheCount(t *testing.T) {
	t.Parallel()
	clock := new(virtual)
	w, err := NewWeightedWindow(throttle.Rate{Count: 600, Period: time.Minute}, clock.now)
	must(t, err)
	passed := 0
	from := time.Minute.Microseconds() - 1
	for clock.us = from; clock.us < from+time.Minute.Microseconds(); {
		r := w.Limit("u1")
		if !r.Blocked {
			passed++
		}
		clock.us += r.Left.Microseconds()
	}
	if passed != 1199 {
		t.Errorf("%d pass within a minute", passed)
	}
}

// A bucket that loses the fraction of a token at each attempt refills at half its rate.
func TestFlooredBucketLosesFractions(t *testing.T) {
	t.Parallel()
	clock := new(virtual)
	b, err := NewFlooredBucket(throttle.Rate{Count: 1000, Period: time.Second}, 1, clock.now)
	must(t, err)
	passed := 0
	for ; clock.us < 10_000_000; clock.us += 1900 {
		if !b.Limit("u1").Blocked {
			passed++
		}
	}
	if passed < 5200 || passed > 5300 {
		t.Errorf("%d pass in 10 s, want about half of 10,000", passed)
	}
}

func newCounters(t *testing.T, clock *virtual, rates ...throttle.Rate) func() Result {
	t.Helper()
	c, err := NewCounters(redistest.Shared(t).Client(t), rates, Options{Prefix: redistest.Prefix(), Timeout: 10 * time.Second, Now: clock.now})
	must(t, err)
	return func() Result {
		t.Helper()
		r, err := c.Limit(t.Context(), "u1")
		must(t, err)
		return r
	}
}

func TestCountersChargeDeniedAttempts(t *testing.T) {
	t.Parallel()
	clock := &virtual{us: 1_800_000_000_000_000}
	attempt := newCounters(t, clock, throttle.Rate{Count: 1, Period: time.Second}, throttle.Rate{Count: 3, Period: time.Minute})
	for i, want := range []Result{
		{},
		{Blocked: true, ByCount: true, Left: 700 * time.Millisecond},
		{Blocked: true, ByCount: true, Left: 400 * time.Millisecond},
		{Blocked: true, ByCount: true, Left: time.Minute - 900*time.Millisecond},
		{Blocked: true, ByCount: true, Left: time.Minute - 1200*time.Millisecond},
	} {
		if r := attempt(); r != want {
			t.Errorf("attempt %d: %+v, want %+v", i, r, want)
		}
		clock.us += 300_000
	}
}

func TestCountersAllowTwiceTheCountAroundBorder(t *testing.T) {
	t.Parallel()
	clock := &virtual{us: 1_800_000_000_000_000 - 1}
	attempt := newCounters(t, clock, throttle.Rate{Count: 5, Period: time.Minute})
	for i := range 10 {
		if i == 5 {
			clock.us++
		}
		if r := attempt(); r.Blocked || r.Remaining != 4-i%5 {
			t.Errorf("attempt %d: %+v", i, r)
		}
	}
	if r := attempt(); r != (Result{Blocked: true, ByCount: true, Left: time.Minute}) {
		t.Errorf("%+v", r)
	}
}
