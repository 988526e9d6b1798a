package throttletest

import (
	"fmt"
	"time"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/quiet"
)

// quietHours: held notifications get slots after the quiet hours at the distance of their limits,
// also after a cancel or a change of limits, and without other limits. A notification is granted if
// it ignores quiet hours, its category has none, or its own zone's clock is outside them.
func quietHours(s *stage) {
	now := s.want(s, throttle.Granted, throttle.Request{User: s.user(), ID: "now", Scopes: scopes(policy(time.Hour), "", policy(0))}).Now.UTC()
	minutes := now.Hour()*60 + now.Minute()
	around := quiet.Window{Days: 1<<7 - 1, From: (minutes + 1440 - 60) % 1440, Upto: (minutes + 60) % 1440}
	end := now.Truncate(time.Minute).Add(time.Hour)
	held := policy(time.Minute)
	held.Quiet = quiet.Hours{around}
	none, only := throttle.Policy{Quiet: quiet.Hours{}}, throttle.Policy{Quiet: held.Quiet}

	r := throttle.Request{User: s.user(), Horizon: 24 * time.Hour, Scopes: scopes(held, "", none)}
	waits := func(d throttle.Decision, from time.Time, rule string) {
		s.Helper()
		if late := d.At.Sub(from); d.Status != throttle.Deferred || late < 0 || late > 50*time.Millisecond || d.Rule != rule || !d.Quiet.Equal(end) {
			s.Errorf("%+v, want deferred until %v by %s, in quiet hours until %v", d, from, rule, end)
		}
	}
	for i, rule := range []string{throttle.QuietRule, throttle.GapRule, throttle.GapRule} {
		r.ID = fmt.Sprint("n", i)
		waits(s.acquire(s, r), end.Add(time.Duration(i)*time.Minute), rule)
	}
	r.ID = "n0"
	for _, b := range s.cancel(s, r).Early {
		if b.Slot.Before(end) {
			s.Errorf("%s is woken for %v, before %v", b.ID, b.Slot, end)
		}
	}
	r.Scopes[0].Policy.MinGap = time.Second
	s.replan(s, r)
	timeline := s.timeline(s, r)
	if len(timeline.Bookings) != 2 || !timeline.Bookings[0].Slot.Equal(end) || timeline.Bookings[0].Rule != throttle.QuietRule || len(timeline.Quiet) == 0 {
		s.Errorf("there wait %+v, and closed is %v", timeline.Bookings, timeline.Quiet)
	}

	passes := r
	passes.ID, passes.IgnoreQuiet = "critical", true
	if d := s.want(s, throttle.Granted, passes); !d.Quiet.IsZero() {
		s.Errorf("%+v, although it ignores quiet hours", d)
	}
	passes.ID = "another"
	if d := s.want(s, throttle.Deferred, passes); !d.Slotless || d.At.Sub(d.Now) > time.Second {
		s.Errorf("%+v, want it behind the gap", d)
	}
	r.User, r.Scopes = s.user(), scopes(held, "c", none)
	s.want(s, throttle.Granted, r)
	r.User, r.Scopes = s.user(), scopes(throttle.Policy{}, "c", only)
	waits(s.acquire(s, r), end, throttle.QuietRule)
	r.User, r.Scopes, r.Zone = s.user(), scopes(held, "", none), time.FixedZone("far", -6*60*60)
	s.want(s, throttle.Granted, r)
}
