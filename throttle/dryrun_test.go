package throttle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A dry run returns the moves of a Replan at the same time.
func TestDryRunEqualsReplan(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		l, random := newClockedLine(t), rand.New(rand.NewPCG(seed, 0))
		policy := func() *Policy {
			return &Policy{MinGap: time.Duration(1+random.IntN(20)) * time.Second, Rates: []Rate{{1 + random.IntN(5), time.Duration(1+random.IntN(3)) * time.Minute}}}
		}
		general, own := policy(), map[string]*Policy{"": nil, "a": policy(), "b": policy()}
		for i := range 30 {
			category := []string{"", "a", "b"}[random.IntN(3)]
			r := l.in(category, fmt.Sprint("n", i), *general, own[category])
			r.Horizon = 1000 * time.Hour
			l.ask(r, deniedClaim{})
			l.advance(time.Duration(random.IntN(3000)) * time.Millisecond)
		}
		general, own["a"] = policy(), policy()
		var lines []Request
		for _, category := range []string{"b", "", "a"} {
			lines = append(lines, l.in(category, "", *general, own[category]))
		}
		before := l.server.DB(0).Keys()
		plan, err := l.limiter.DryRun(t.Context(), lines)
		if err != nil || len(plan.Moves) == 0 || len(plan.Others) > 0 || len(l.server.DB(0).Keys()) != len(before) {
			t.Fatal(plan, err)
		}
		must(t, errOf(l.limiter.Replan(t.Context(), lines)))
		timeline, err := l.limiter.Timeline(t.Context(), lines[0])
		waiting := slices.DeleteFunc(timeline.Bookings, func(b Booking) bool { return b.Slot.Before(timeline.Now.Add(-time.Second)) }) // others may pass it
		if err != nil || len(waiting) != len(plan.Moves) {
			t.Fatal(timeline, err)
		}
		at := map[string]time.Time{}
		for _, b := range waiting {
			at[b.ID] = b.Slot
		}
		for _, m := range plan.Moves {
			if !at[m.ID].Equal(m.To) {
				t.Errorf("seed %d: %s waits until %s, and the dry run said %s", seed, m.ID, at[m.ID], m.To)
			}
		}
	}
}
