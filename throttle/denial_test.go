package throttle

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
)

// TestADeniedClaimLeavesNoHole has those who are booked while another process's
// claim stands there, which is denied, wait no longer than without it.
func TestADeniedClaimLeavesNoHole(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	clock := newFakeClock()
	server.SetTime(clock.now())
	ctx := context.Background()
	request := func(id string) *Request {
		return &Request{User: "u", ID: id, Horizon: time.Hour,
			Scopes: []Scope{{General, Policy{MinGap: 300 * time.Millisecond, Rates: []Rate{{10, 5 * time.Second}}}}}}
	}
	// slots are those of 15 who come at once, the fifth behind a claim or not
	slots := func(prefix string, claims bool) []Booking {
		l := NewRedis(client, Options{Prefix: prefix, Now: clock.now, Timeout: redistest.Patience})
		t.Cleanup(func() { _ = l.Close() })
		visit := func(id string, claim denial) {
			r := request(id)
			if _, err := l.wait(ctx, r, l.user(r), claim); err != nil {
				t.Fatal(err)
			}
		}
		visit("n0", denial{})
		stamp := clock.now().UnixMicro() + 7
		if claims {
			if err := client.ZAdd(ctx, l.user(request("late")).keys.sent, redis.Z{Score: float64(stamp), Member: "late"}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 14 {
			visit(fmt.Sprint("n", i+1), denial{})
		}
		visit("late", denial{stamp, clock.now().UnixMicro()})
		timeline, err := l.Timeline(ctx, *request("n0"))
		if err != nil {
			t.Fatal(err)
		}
		return timeline.Bookings
	}
	want := slots("without", false)
	got := slots("with", true)
	if !slices.EqualFunc(got, want, func(a, b Booking) bool {
		return a.ID == b.ID && a.Slot.Sub(b.Slot).Abs() <= 20*time.Millisecond
	}) {
		t.Errorf("with the claim\n%v, without\n%v", got, want)
	}
}
