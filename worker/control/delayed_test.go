package control

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// Repeated calls for a key are merged into one call, with the bookings of all of them.
func TestDelayedCallsAreMerged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, key := new(delayed), lineKey{app: "shop", user: "ada"}
		began, placed, woken := time.Now(), 0, [][]throttle.Booking(nil)
		slot := func(id string, at time.Duration) throttle.Booking {
			return throttle.Booking{ID: id, Slot: began.Add(at)}
		}
		ctx, cancel := context.WithCancel(t.Context())
		for _, some := range [][]throttle.Booking{{slot("b", 2), slot("a", 1)}, {slot("b", 2), slot("c", 3)}} {
			l.after(ctx, time.Second, key, func(context.Context) { placed++ })
			l.again(ctx, lineKey{app: "shop", user: "ada", try: 1}, some, func(_ context.Context, all []throttle.Booking) { woken = append(woken, all) })
		}
		cancel() // the callers have gone
		l.rest(t.Context())
		if took := time.Since(began); took != time.Second || placed != 1 {
			t.Errorf("placed %d times after %s", placed, took)
		}
		if len(woken) != 1 || len(woken[0]) != 3 || woken[0][0].ID != "a" || woken[0][2].ID != "c" {
			t.Errorf("woken are %v", woken)
		}
		l.after(t.Context(), time.Second, key, func(context.Context) { placed++ })
		l.rest(t.Context())
		if placed != 2 {
			t.Errorf("placed %d times, want 2", placed)
		}
	})
}
