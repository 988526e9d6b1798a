package compare

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
)

// start returns the contestant at work, without any history.
func (c *Contestant) start(ids []string) (limiter, error) {
	s := &c.spec
	switch s.Algorithm {
	case Rolling:
		return newRolling(c.rates(), len(ids)), nil
	case PublishedRolling:
		return newRollingRateLimiter(s.MinGap, s.Rates[0], ids)
	case PublishedCounters:
		return newPipelinedCounters(s.Rates, len(ids)), nil
	case PublishedBucket:
		burst := s.Burst
		if burst == 0 {
			burst = s.Rates[0].Count
		}
		return newFlooredBucket(s.Rates[0], burst, len(ids)), nil
	case WeightedWindow:
		return newWeightedWindow(s.Rates[0], len(ids)), nil
	}
	m := &metered{spec: s.meter(), ids: ids, ask: meter.Ask{Least: 1, Most: 1}}
	if s.Algorithm == meter.LeakyBucket { // its burst says how many may wait
		r := s.Rates[0]
		m.ask.Ahead = time.Duration(math.Ceil(float64(cmp.Or(s.Burst, r.Count)-1) * float64(r.Period) / float64(r.Count)))
	}
	m.Meter = meter.NewMemory(func() time.Time { return time.UnixMicro(m.now) })
	return m, nil
}

// metered is a limiter by a meter.
type metered struct {
	meter.Meter
	spec meter.Spec
	ask  meter.Ask
	ids  []string
	now  int64
}

func (m *metered) take(key int32, now int64) (left int64, taken bool) {
	m.now = now
	a, err := m.Take(context.Background(), m.ids[key], m.spec, m.ask)
	if err != nil {
		panic(err) // in memory there is none, of a valid spec
	}
	return a.Left.Microseconds(), a.Units > 0
}

// rates are what the contestant is judged by: its rates, and its gap as one more.
func (c *Contestant) rates() []throttle.Rate {
	rates := c.spec.Rates
	if c.spec.MinGap > 0 {
		rates = append(rates[:len(rates):len(rates)], throttle.Rate{Count: 1, Period: c.spec.MinGap})
	}
	return rates
}

// charges reports whether who is denied has a later one denied too: of counters only
// those of other rates.
func (c *Contestant) charges() bool {
	return c.spec.Algorithm == PublishedRolling || c.spec.Algorithm == PublishedCounters && len(c.spec.Rates) > 1
}
