package compare

import (
	"context"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pushpace/pushpace/throttle"
)

// The rolling window decides as throttle's limiter does of whom nobody waits.
func TestRollingIsThatOfThrottle(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, c := drawArrivals(t, 150), Contestant{spec: spec{Algorithm: Rolling, Rates: drawRates(t, 3)}}
		if rapid.Bool().Draw(t, "with a gap") {
			c.spec.MinGap = time.Duration(rapid.IntRange(1, 20).Draw(t, "gap")) * time.Millisecond
		}
		l, err := c.start(make([]string, a.keys))
		if err != nil {
			t.Fatal(err)
		}
		now := int64(0)
		limiter := throttle.NewMemory(throttle.MemoryOptions{Now: func() time.Time { return time.UnixMicro(now) }})
		for i, at := range a.at {
			now = at
			r := throttle.Request{App: "a", User: strconv.Itoa(int(a.key[i])), ID: strconv.Itoa(i),
				Scopes: []throttle.Scope{{Name: throttle.General, Policy: throttle.Policy{MinGap: c.spec.MinGap, Rates: c.spec.Rates}}}}
			d, err := limiter.Acquire(context.Background(), r)
			if err != nil {
				t.Fatal(err)
			}
			left, taken := l.take(a.key[i], at)
			if granted := d.Status == throttle.Granted; granted != taken {
				t.Fatalf("at %d: taken %v, %s", at, taken, d.Status)
			}
			if taken {
				continue
			}
			if _, err := limiter.Cancel(context.Background(), r); err != nil {
				t.Fatal(err)
			}
			// when it is told to come there is room, and not before
			for _, early := range []int64{1, 0} {
				now = at + left - early
				if d, err = limiter.Peek(context.Background(), r); err != nil || (d.Status == throttle.Granted) != (early == 0) {
					t.Fatalf("%d µs before it is told to come: %+v, %v", early, d, err)
				}
			}
		}
	})
}

// When it is told that there is room there is, and not before, of all but those that
// keep out who tries.
func TestWhatIsToldHolds(t *testing.T) {
	t.Parallel()
	for _, algorithm := range Algorithms {
		rapid.Check(t, func(t *rapid.T) {
			c := Contestant{spec: spec{Algorithm: algorithm, Rates: drawRates(t, 1)}}
			if algorithm == PublishedRolling {
				return
			}
			l, err := c.start([]string{"0"})
			if err != nil {
				t.Fatal(err)
			}
			for now := int64(0); now < 100_000; now += int64(rapid.IntRange(0, 5000).Draw(t, "later")) {
				left, taken := l.take(0, now)
				if taken {
					continue
				}
				if left > 1 {
					if _, taken := l.take(0, now+left-1); taken {
						t.Fatalf("%s: there is room before %d", algorithm, now+left)
					}
				}
				now += left
				if _, taken := l.take(0, now); !taken {
					t.Fatalf("%s: there is no room at %d", algorithm, now)
				}
			}
		})
	}
}

// A token bucket that drops the fraction of a token each time it is asked fills at half
// its rate.
func TestPublishedBucketLosesFractions(t *testing.T) {
	t.Parallel()
	b := newFlooredBucket(throttle.Rate{Count: 1000, Period: time.Second}, 1, 1)
	admitted := 0
	for now := int64(0); now < 10_000_000; now += 1900 {
		if _, taken := b.take(0, now); taken {
			admitted++
		}
	}
	if admitted < 5200 || admitted > 5300 {
		t.Errorf("%d admitted in 10 s", admitted)
	}
}

// Counters in a pipeline charge the minute for what the second denies.
func TestPublishedCountersChargeWhatIsDenied(t *testing.T) {
	t.Parallel()
	p := newPipelinedCounters([]throttle.Rate{{Count: 1, Period: time.Second}, {Count: 3, Period: time.Minute}}, 1)
	for i, want := range []bool{true, false, false, false, false} {
		if _, taken := p.take(0, int64(i)*300_000); taken != want {
			t.Errorf("ask %d: taken %v", i, taken)
		}
	}
}

// A bucket that nobody has used yet is full, and fills no earlier for that.
func TestANewFlooredBucketIsFull(t *testing.T) {
	t.Parallel()
	b := newFlooredBucket(throttle.Rate{Count: 2, Period: 13 * time.Millisecond}, 2, 1)
	for i, at := range []int64{2000, 2000, 7000, 9000} {
		if _, taken := b.take(0, at); taken != (i != 2) {
			t.Errorf("at %d µs: taken %t", at, taken)
		}
	}
}
