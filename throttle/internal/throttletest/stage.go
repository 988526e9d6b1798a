package throttletest

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pushpace/pushpace/throttle"
	"pgregory.net/rapid"
)

// A stage is the environment of one property: an instance, and new users.
type stage struct {
	*testing.T
	Instance
	harness Harness
}

var users atomic.Int64

// user returns the name of a new user.
func (s *stage) user() string { return fmt.Sprint("user", users.Add(1)) }

// slowChecks is the number of random histories of a slow implementation.
const slowChecks = 10

// size returns n, or less for a slow implementation.
func (s *stage) size(n int) int {
	if s.harness.Slow {
		return n / 6
	}
	return n
}

// check runs the property on random histories.
func (s *stage) check(property func(*rapid.T)) {
	s.Helper()
	checks, failed := 0, false
	rapid.Check(s.T, func(rt *rapid.T) {
		if checks++; s.harness.Slow && checks > slowChecks && !failed {
			return
		}
		done := false
		defer func() { failed = failed || !done }() // histories that shrink a failure must run
		property(rt)
		done = true
	})
}

// pass advances the clock if the instance supports it.
func (s *stage) pass(d time.Duration) {
	if s.Advance != nil {
		s.Advance(d)
	}
}

// unit returns the unit of drawn periods: short in real time.
func (s *stage) unit() time.Duration {
	if s.Advance == nil {
		return time.Millisecond
	}
	return time.Second
}

// failer is the common part of testing.T and rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func (s *stage) acquire(t failer, r throttle.Request) throttle.Decision {
	t.Helper()
	d, err := s.Limiter.Acquire(context.Background(), r)
	if err != nil {
		t.Fatalf("acquire %s: %v", r.ID, err)
	}
	return d
}

// want calls acquire and fails unless it returns the status.
func (s *stage) want(t failer, status throttle.Status, r throttle.Request) throttle.Decision {
	t.Helper()
	d := s.acquire(t, r)
	if d.Status != status {
		t.Fatalf("acquire %s: %s, want %s: %+v", r.ID, d.Status, status, d)
	}
	return d
}

func (s *stage) cancel(t failer, r throttle.Request) throttle.FollowUp {
	t.Helper()
	placed, err := s.Limiter.Cancel(context.Background(), r)
	if err != nil {
		t.Fatalf("cancel %s: %v", r.ID, err)
	}
	return placed
}

// replan reschedules the lines of the requests.
func (s *stage) replan(t failer, all ...throttle.Request) throttle.FollowUp {
	t.Helper()
	placed, err := s.Limiter.Replan(context.Background(), all)
	if err != nil {
		t.Fatalf("replan: %v", err)
	}
	return placed
}

// settle handles FollowUp: it reschedules the user's other lines by the scopes of their categories,
// and the request's line if a second must pass first. It returns the jobs to wake.
func (s *stage) settle(t failer, r throttle.Request, placed throttle.FollowUp, of func(category string) []throttle.Scope) (early []throttle.Booking) {
	t.Helper()
	early = placed.Early
	if len(placed.Others) > 0 {
		var lines []throttle.Request
		for _, line := range placed.Others {
			lines = append(lines, throttle.Request{App: r.App, User: r.User, Category: line.Category, Scopes: of(line.Category)})
		}
		early = append(early, s.replan(t, lines...).Early...)
	}
	if placed.After > 0 {
		early = append(early, s.replan(t, r).Early...)
	}
	return early
}

// timeline returns the request's timeline without its Now.
func (s *stage) timeline(t failer, r throttle.Request) throttle.Timeline {
	t.Helper()
	timeline, err := s.Limiter.Timeline(context.Background(), r)
	if err != nil {
		t.Fatalf("timeline: %v", err)
	}
	timeline.Now = time.Time{}
	return timeline
}

// describe returns a timeline as text, for comparison.
func describe(t throttle.Timeline) string {
	text := ""
	for _, scope := range sortedKeys(t.Admissions) {
		text += scope + ":"
		for _, a := range t.Admissions[scope] {
			text += fmt.Sprintf(" %s@%d", a.ID, a.At.UnixMicro())
		}
		text += "\n"
	}
	for _, b := range t.Bookings {
		text += fmt.Sprintf("booked %s %s@%d\n", b.Scope, b.ID, b.Slot.UnixMicro())
	}
	return text
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// scopes returns the scopes of a request: the general policy first, then the category's if name
// is not empty.
func scopes(general throttle.Policy, name string, category throttle.Policy) []throttle.Scope {
	s := []throttle.Scope{{Name: throttle.General, Policy: general}}
	if name != "" {
		s = append(s, throttle.Scope{Name: name, Policy: category})
	}
	return s
}

// policy returns a policy with a gap and rates.
func policy(gap time.Duration, rates ...throttle.Rate) throttle.Policy {
	return throttle.Policy{MinGap: gap, Rates: rates}
}

func rate(n int, period time.Duration) throttle.Rate {
	return throttle.Rate{Count: n, Period: period}
}

// drawPolicy draws a policy with periods of 1 to 40 units.
func drawPolicy(rt *rapid.T, unit time.Duration, label string) throttle.Policy {
	var p throttle.Policy
	p.MinGap = time.Duration(rapid.SampledFrom([]float64{0, 0, 0.001, 0.3, 1, 7}).Draw(rt, label+" gap") * float64(unit))
	rates := []throttle.Rate{rate(1, unit), rate(2, 10*unit), rate(3, 5*unit), rate(5, 20*unit), rate(1, 40*unit), rate(4, unit*3/2)}
	p.Rates = rapid.SliceOfNDistinct(rapid.SampledFrom(rates), 0, 2, func(r throttle.Rate) time.Duration { return r.Period }).
		Draw(rt, label+" rates")
	return p
}

// passing advances the clock by a drawn time.
func (s *stage) passing(rt *rapid.T) {
	if s.Advance != nil && rapid.IntRange(0, 2).Draw(rt, "time passes") > 0 {
		steps := []float64{0.000001, 0.001, 0.0025, 0.1, 0.299999, 1, 3, 30}
		s.Advance(time.Duration(rapid.SampledFrom(steps).Draw(rt, "units") * float64(s.unit())))
	}
}
