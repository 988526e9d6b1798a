package throttletest

import (
	"fmt"
	"slices"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// liftedLimit: after the removal of a limit, a Replan of its line returns all of the line's
// notifications and removes their slots. Notifications under another limit keep waiting, unless
// their category is exempt.
func liftedLimit(s *stage) {
	hour, none, exempt := policy(time.Hour), policy(0), throttle.Policy{Exempt: true}
	for _, tt := range []struct {
		name                string
		before, then, after []throttle.Scope // after: the scopes of a new notification
		others              []throttle.Scope // scopes of other waiting notifications; nil for none
		wantOthers          int              // how many of these keep waiting
	}{
		{"the general limits", scopes(hour, "", none), scopes(none, "", none), scopes(hour, "", none), nil, 0},
		{"the general limits, of a category", scopes(hour, "c", none), scopes(none, "c", none), scopes(hour, "c", none), scopes(hour, "", none), 0},
		{"the category's", scopes(none, "c", hour), scopes(none, "c", none), scopes(none, "c", hour), scopes(none, "d", hour), 5},
		{"all of an exempt category's that waits for its own", scopes(none, "c", hour), scopes(none, "c", exempt), scopes(none, "c", hour), scopes(none, "d", hour), 5},
		{"all of an exempt category's", scopes(hour, "c", hour), scopes(hour, "c", exempt), scopes(hour, "c", hour), scopes(hour, "d", hour), 5},
	} {
		r := throttle.Request{User: s.user(), Horizon: 1000 * time.Hour, Scopes: tt.before}
		waits := []string{}
		for i := range 6 {
			r.ID = fmt.Sprint("n", i)
			if d := s.acquire(s, r); d.Status == throttle.Deferred {
				waits = append(waits, r.ID)
			}
		}
		others := r
		if others.Scopes = tt.others; others.Scopes != nil {
			for i := range 6 {
				others.ID = fmt.Sprint("o", i)
				if d := s.acquire(s, others); d.Status == throttle.Deferred && tt.wantOthers == 0 {
					waits = append(waits, others.ID)
				}
			}
		}
		r.Scopes = tt.then
		var moved []string
		early := s.settle(s, r, s.replan(s, r), func(string) []throttle.Scope {
			then := slices.Clone(tt.others)
			if then[0] = tt.then[0]; tt.then[len(tt.then)-1].Policy.Exempt {
				then[0] = tt.others[0]
			}
			return then
		})
		for _, b := range early {
			if b.ID[0] == 'o' && tt.wantOthers > 0 {
				continue // one that keeps waiting may move up
			}
			moved = append(moved, b.ID)
		}
		slices.Sort(moved)
		if !slices.Equal(moved, waits) {
			s.Errorf("%s: Replan returned %v, but %v waited", tt.name, moved, waits)
		}
		r.Scopes = tt.after
		for _, b := range s.timeline(s, r).Bookings {
			if b.ID[0] == 'n' {
				s.Errorf("%s: %+v is left", tt.name, b)
			}
		}
		if tt.wantOthers > 0 {
			left := 0
			for _, b := range s.timeline(s, others).Bookings {
				if b.ID[0] == 'o' {
					left++
				}
			}
			if left < tt.wantOthers {
				s.Errorf("%s: %d notifications with other limits wait", tt.name, left)
			}
		}
		// the first admission still counts
		r.ID = "newcomer"
		if d := s.acquire(s, r); d.Status != throttle.Deferred {
			s.Errorf("%s: with the limit back a newcomer has %+v", tt.name, d)
		}
	}
}
