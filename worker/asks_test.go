package worker

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/push"
)

// Those of a user ask in the order in which they were accepted, others beside
// them, and neither one that gives up nor one whose answer does not come holds anybody back.
func TestAsksAreInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var a asks
		began := time.Now()
		of := func(user string, n int) *delivery {
			return &delivery{Notification: &push.Notification{User: user}, accepted: began.Add(time.Duration(n) * time.Microsecond)}
		}
		first := of("u", 5)
		if !a.enter(t.Context(), first) {
			t.Fatal("the first one has to wait")
		}
		other := of("other", 9)
		if !a.enter(t.Context(), other) {
			t.Fatal("another user's has to wait")
		}
		a.leave(other)
		ended, end := context.WithCancel(t.Context())
		var asked, gaveUp []int
		for _, n := range []int{7, 1, 4, 2, 6, 3} {
			go func() {
				ctx := t.Context()
				if n == 2 {
					ctx = ended
				}
				d := of("u", n)
				if !a.enter(ctx, d) {
					gaveUp = append(gaveUp, n)
					return
				}
				asked = append(asked, n)
				a.leave(d)
			}()
			synctest.Wait()
		}
		end()
		synctest.Wait()
		if !slices.Equal(gaveUp, []int{2}) {
			t.Errorf("gave up: %v", gaveUp)
		}
		a.leave(first)
		synctest.Wait()
		if !slices.Equal(asked, []int{1, 3, 4, 6, 7}) {
			t.Errorf("asked in the order %v", asked)
		}
		if len(a.open) > 0 {
			t.Errorf("left %v", a.open)
		}

		a.enter(t.Context(), first)
		if a.enter(t.Context(), of("u", 8)) {
			t.Error("one has its turn while another has not left")
		}
		a.leave(first)
		if len(a.open) > 0 {
			t.Errorf("left %v", a.open)
		}
	})
}
