package route

import (
	"maps"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers"
)

// The status counts outcomes of the last 15 minutes, and latencies of the last one to two minutes.
func TestStatusCountsAnswers(t *testing.T) {
	r, begin := new(Route), time.Unix(1_795_219_200, 0)
	told := func(after time.Duration) (s Status) {
		r.answers.addTo(begin.Add(after), &s)
		return s
	}
	if s := told(0); s.Answers != nil || s.Latency != (Latency{}) {
		t.Errorf("%+v", s)
	}
	for range 98 {
		r.Answered(providers.OK, 10*time.Millisecond)
	}
	r.Answered("Unregistered", time.Second)
	r.Answered("Unregistered", time.Second)
	want := map[providers.Reason]int64{providers.OK: 98, "Unregistered": 2}
	for _, c := range []struct {
		after             time.Duration
		latency, answered bool
	}{{0, true, true}, {time.Minute, true, true}, {2 * time.Minute, false, true}, {14 * time.Minute, false, true}, {15 * time.Minute, false, false}} {
		s := told(c.after)
		if c.answered != maps.Equal(s.Answers, want) || c.answered == (s.Answers == nil) {
			t.Errorf("after %s: %v", c.after, s.Answers)
		}
		near := func(got, want time.Duration) bool { return (got - want).Abs() <= want/8 }
		if l := s.Latency; c.latency && (!near(l.P50, 10*time.Millisecond) || !near(l.P99, time.Second)) || !c.latency && l != (Latency{}) {
			t.Errorf("after %s: %+v", c.after, l)
		}
	}
	if got := testing.AllocsPerRun(100, func() { r.Answered(providers.OK, time.Second); r.Answered("Unregistered", time.Second) }); got != 0 {
		t.Errorf("an answer allocates %v times", got)
	}
}
