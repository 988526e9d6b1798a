package meter_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
)

func rates(t testing.TB, written ...string) []throttle.Rate {
	t.Helper()
	var all []throttle.Rate
	for _, s := range written {
		r, err := throttle.ParseRate(s)
		must(t, err)
		all = append(all, r)
	}
	return all
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec meter.Spec
		want string // "" is valid
	}{
		{meter.Spec{Rates: rates(t, "600000/1m"), Burst: 6000, Ramp: time.Minute, Life: 250 * time.Millisecond}, ""},
		{meter.Spec{Algorithm: meter.LeakyBucket, Rates: rates(t, "5/1s"), Burst: 50}, ""},
		{meter.Spec{Algorithm: meter.FixedWindow, Rates: rates(t, "3/1s", "20/1m")}, ""},
		{meter.Spec{Algorithm: meter.SlidingWindow, Rates: rates(t, "3/1s"), Cells: 5, Life: time.Second}, ""},
		{meter.Spec{}, "rates: there is none"},
		{meter.Spec{Rates: []throttle.Rate{{Count: 0, Period: time.Second}}}, "count is not positive"},
		{meter.Spec{Rates: []throttle.Rate{{Count: 1}}}, "period is not positive"},
		{meter.Spec{Algorithm: "gcra", Rates: rates(t, "1/1s")}, "none of [token_bucket leaky_bucket fixed_window sliding_window]"},
		{meter.Spec{Rates: rates(t, "1/1s", "2/1m")}, "a bucket has one"},
		{meter.Spec{Rates: rates(t, "1/1s"), Cells: 2}, "a bucket has none"},
		{meter.Spec{Rates: rates(t, "1/1s"), Burst: -1}, "burst: -1"},
		{meter.Spec{Rates: rates(t, "1/1s"), Ramp: -time.Second}, "ramp: -1s"},
		{meter.Spec{Rates: rates(t, "1/1s"), Life: time.Nanosecond}, "life: 1ns"},
		{meter.Spec{Rates: rates(t, "9007199254740993/1s")}, "larger count than can be counted"},
		{meter.Spec{Rates: rates(t, "10/1s"), Burst: 11, Life: time.Second}, "burst: 11 is more than 10/1s allows"},
		{meter.Spec{Rates: rates(t, "10/1s"), Burst: 10}, ""},
		{meter.Spec{Rates: rates(t, "10/1s"), Burst: 10}.Promise(), "burst: 10 leaves 0 of 10/1s for the rest of the period: want at most 6"},
		{meter.Spec{Rates: rates(t, "1/1s"), Burst: 1}.Promise(), ""},
		{meter.Spec{Rates: rates(t, "999983/720h")}, "too large to be counted exactly at 999983/720h: at most 868"},
		{meter.Spec{Algorithm: meter.FixedWindow, Rates: rates(t, "1/1s"), Cells: 2}, "fixed_window has none"},
		{meter.Spec{Algorithm: meter.FixedWindow, Rates: rates(t, "1/1s"), Life: time.Second}, "keeps no promise"},
		{meter.Spec{Algorithm: meter.SlidingWindow, Rates: rates(t, "1/1s"), Ramp: time.Second}, "token_bucket has"},
		{meter.Spec{Algorithm: meter.SlidingWindow, Rates: rates(t, "1/1s"), Cells: 101}, "want 1 to 100"},
		{meter.Spec{Algorithm: meter.SlidingWindow, Rates: rates(t, "1/1s", "2/1s")}, "same period"},
		{meter.Spec{Algorithm: meter.FixedWindow, Rates: rates(t, "1/1s", "1/2s", "1/3s", "1/4s", "1/5s", "1/6s", "1/7s", "1/8s", "1/9s")}, "at most 8"},
	} {
		err := c.spec.Validate()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%+v: %v", c.spec, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: %v; want %q", c.spec, err, c.want)
		}
	}
}

// The promises for quotas of the size of FCM's and APNs', and how much of each can be used.
func TestPromiseUsesMostOfItsRate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate  string
		life  time.Duration
		burst int
		used  float64 // of the rate, on average
	}{
		{"600000/1m", 250 * time.Millisecond, 6000, 0.985},
		{"9000/1s", 10 * time.Millisecond, 100, 0.979},
		{"6000/6s", 60 * time.Millisecond, 100, 0.973},
		{"60/1m", 250 * time.Millisecond, 6, 0.91},
		{"1/24h", 250 * time.Millisecond, 1, 0.99},
	} {
		r := rates(t, c.rate)
		s := meter.Spec{Rates: r}.Promise()
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", c.rate, err)
		}
		if s.Life != c.life || s.AtOnce() != c.burst || s.Most(r[0].Period) != r[0].Count {
			t.Errorf("%s: life %s, burst %d, at most %d in a period; want %s, %d", c.rate, s.Life, s.AtOnce(), s.Most(r[0].Period), c.life, c.burst)
		}
		if used := float64(s.Most(1000*r[0].Period)) / 1000 / float64(r[0].Count); used < c.used || used > 1 {
			t.Errorf("%s: uses %.3f of it; want %.3f", c.rate, used, c.used)
		}
	}
}
