package throttle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/throttle/quiet"
)

// quietLine is a line at noon UTC, of a user who is left alone until half past.
func quietLine(t *testing.T) (*clockedLine, Policy) {
	return newClockedLine(t), Policy{MinGap: time.Second, Quiet: hoursOf(t, "11:00-12:30"), Night: quiet.Night{Zone: time.UTC}}
}

// By a zone that this machine does not know a notification waits by its own, and so do those
// who wait.
func TestAZoneThatIsNotKnown(t *testing.T) {
	t.Parallel()
	l, policy := quietLine(t)
	first := l.acquire("first", policy)
	l.server.HSet("pushpace:{u}:limits", "z", fmt.Sprint(l.clock.now().Add(time.Hour).UnixMicro(), " Mars/Olympus"))
	d := l.acquire("second", policy)
	if d.Status != Deferred || first.Left != 30*time.Minute || d.At.Sub(first.At) > 1100*time.Millisecond || d.Quiet != first.Quiet {
		t.Errorf("%+v, behind %+v", d, first)
	}
	if z := l.server.HGet("pushpace:{u}:limits", "z"); !strings.HasSuffix(z, " Mars/Olympus") {
		t.Errorf("their zone is %q", z)
	}
	if timeline, err := l.limiter.Timeline(t.Context(), l.request("", policy)); err != nil || timeline.Zone != "UTC" || len(timeline.Bookings) != 2 {
		t.Errorf("%+v, %v", timeline, err)
	}
}

// A zoneHook has those who wait be in another zone at each call of the script.
type zoneHook struct {
	listener
	l     *clockedLine
	zones []string
}

func (h *zoneHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "evalsha") && len(h.zones) > 0 {
			h.l.server.HSet("pushpace:{u}:limits", "z", fmt.Sprint(h.l.clock.now().Add(time.Hour).UnixMicro(), " ", h.zones[0]))
			h.zones = h.zones[1:]
		}
		return next(ctx, cmd)
	}
}

// A call asks once more by the zone that it is told, and no more often.
func TestAZoneThatChangesMeanwhile(t *testing.T) {
	t.Parallel()
	l, policy := quietLine(t)
	l.acquire("first", policy)
	h := &zoneHook{l: l}
	l.limiter.client.AddHook(h)
	r := l.request("second", policy)
	ask := func() error {
		before := l.limiter.RoundTrips()
		_, err := l.limiter.wait(t.Context(), &r, l.limiter.user(&r), denial{})
		if trips := l.limiter.RoundTrips() - before; trips != 2 {
			t.Errorf("%d round trips, want 2", trips)
		}
		return err
	}
	h.zones = []string{"Europe/Berlin", "Europe/Berlin"}
	if err := ask(); err != nil {
		t.Error(err)
	}
	h.zones = []string{"Asia/Tokyo", "Europe/Berlin"}
	if err := ask(); !errors.Is(err, errZones) || errors.Is(err, ErrUnavailable) {
		t.Errorf("%v", err)
	}
}
