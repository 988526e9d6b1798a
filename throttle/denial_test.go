package throttle

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// TestDeniedClaimDelaysNoNotification books slots while a claim of another process is in the sets, and
// then denies the claim. The slots are as without the claim.
func TestDeniedClaimDelaysNoNotification(t *testing.T) {
	t.Parallel()
	policy := Policy{MinGap: 300 * time.Millisecond, Rates: []Rate{{10, 5 * time.Second}}}
	// slots returns the slots of 15 concurrent requests, with or without a claim
	slots := func(claims bool) []Booking {
		l := newClockedLine(t)
		l.ask(l.request("n0", policy), deniedClaim{})
		late, stamp := l.request("late", policy), l.clock.now().UnixMicro()+7
		if claims {
			must(t, l.limiter.client.ZAdd(t.Context(), l.limiter.user(&late).keys.sent, redis.Z{Score: float64(stamp), Member: "late"}).Err())
		}
		for i := range 14 {
			l.ask(l.request(fmt.Sprint("n", i+1), policy), deniedClaim{})
		}
		l.ask(late, deniedClaim{stamp, l.clock.now().UnixMicro()})
		timeline, err := l.limiter.Timeline(t.Context(), late)
		must(t, err)
		return timeline.Bookings
	}
	want, got := slots(false), slots(true)
	if !slices.EqualFunc(got, want, func(a, b Booking) bool {
		return a.ID == b.ID && a.Slot.Sub(b.Slot).Abs() <= 20*time.Millisecond
	}) {
		t.Errorf("with the claim\n%v, without\n%v", got, want)
	}
}
