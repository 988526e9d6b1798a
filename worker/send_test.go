package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// A fakeTerm is a term that is in doubt if doubtful is set.
type fakeTerm struct{ doubtful bool }

func (f *fakeTerm) Valid() bool             { return !f.doubtful }
func (*fakeTerm) Lost(context.Context) bool { return false }

// The first push of an admitted notification may start within departureTimeout, the others at any time.
// While the term is in doubt, no push may start.
func TestDepartureTimeoutBoundsFirstPush(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		term := new(fakeTerm)
		want := func(when string, got, want bool) {
			t.Helper()
			if got != want {
				t.Errorf("%s: may leave: %t", when, got)
			}
		}
		departure := (&delivery{term: term, scopes: []throttle.Scope{{}}}).departure()
		time.Sleep(departureTimeout)
		want("the first, in time", departure.Start(), true)
		time.Sleep(time.Second)
		want("the second, late", departure.Start(), true)
		term.doubtful = true
		want("in doubt", departure.Start(), false)
		term.doubtful = false
		want("no longer in doubt", departure.Start(), true)
		for range 3 {
			departure.Undo()
		}
		want("late, and all returned", departure.Start(), false)
		unlimited := (&delivery{term: term}).departure()
		time.Sleep(time.Second)
		want("without a limit", unlimited.Start(), true)
		term.doubtful = true
		want("without a limit, in doubt", unlimited.Start(), false)
	})
}
