package throttle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/internal/base/zone"
	"github.com/pushpace/pushpace/throttle/quiet"
)

func zoneOf(t *testing.T, name string) *time.Location {
	t.Helper()
	in, err := zone.Load(name)
	must(t, err)
	return in
}

func hoursOf(t *testing.T, windows ...string) quiet.Hours {
	t.Helper()
	h, err := quiet.ParseHours(windows)
	must(t, err)
	return h
}

// A nightLine is the line of one user. The test sets its clock, in Berlin's time.
type nightLine struct {
	t       *testing.T
	limiter Planner
	berlin  *time.Location
	set     func(time.Time)
	now     func() time.Time
	policy  Policy // gap 1s, 3/1h, quiet 22:00-08:00
}

// atNight runs the test in the night that begins on 2026-11-25.
func atNight(t *testing.T, test func(*nightLine)) {
	t.Parallel()
	berlin := zoneOf(t, "Europe/Berlin")
	policy := Policy{MinGap: time.Second, Rates: []Rate{{3, time.Hour}}, Quiet: hoursOf(t, "22:00-08:00"), Night: quiet.Night{Zone: berlin}}
	const horizon = 30 * 24 * time.Hour
	l := newClockedLine(t)
	r := newLimiter(t, l.limiter.client, Options{Timeout: time.Minute, Horizon: horizon, Now: l.clock.now})
	test(&nightLine{t, r, berlin, func(at time.Time) { l.advance(at.Sub(l.clock.now())) }, l.clock.now, policy})
}

// at parses a time of the night's first day in Berlin; with the prefix "1 " of the next day, and
// so on.
func (n *nightLine) at(text string) time.Time {
	n.t.Helper()
	days := 0
	if day, rest, more := strings.Cut(text, " "); more {
		must(n.t, errOf(fmt.Sscan(day, &days)))
		text = rest
	}
	at, err := time.ParseInLocation("15:04:05", text, n.berlin)
	must(n.t, err)
	return time.Date(2026, time.November, 25+days, at.Hour(), at.Minute(), at.Second(), at.Nanosecond(), n.berlin)
}

// shown formats a time as at parses it.
func (n *nightLine) shown(at time.Time) string {
	if at.IsZero() {
		return "never"
	}
	at = at.In(n.berlin)
	text := at.Format("15:04:05.999999")
	if days := int(at.Sub(n.at("00:00:00")).Hours() / 24); days > 0 {
		text = fmt.Sprint(days, " ", text)
	}
	return text
}

// ask calls Acquire at that time.
func (n *nightLine) ask(at, id string, change ...func(*Request)) Decision {
	n.t.Helper()
	n.set(n.at(at))
	r := n.request(id, change...)
	d, err := n.limiter.Acquire(context.Background(), r)
	must(n.t, err)
	return d
}

func (n *nightLine) request(id string, change ...func(*Request)) Request {
	r := Request{User: "u", ID: id, Scopes: []Scope{{General, n.policy}}, Horizon: 20 * 24 * time.Hour}
	for _, c := range change {
		c(&r)
	}
	return r
}

func passing(r *Request) { r.IgnoreQuiet = true }

func (n *nightLine) user(name string) func(*Request) { return func(r *Request) { r.User = name } }
func under(policies ...Policy) func(*Request) {
	return func(r *Request) {
		r.Scopes = []Scope{{General, policies[0]}}
		if len(policies) > 1 {
			r.Scopes = append(r.Scopes, Scope{"c", policies[1]})
		}
	}
}

// want fails unless the decision is want: "now", or status, time and rule.
func (n *nightLine) want(d Decision, want string) {
	n.t.Helper()
	got := strings.TrimSpace(fmt.Sprint(d.Status, " ", n.shown(d.At), " ", d.Rule))
	if d.Status == Granted && d.At.Equal(d.Now) {
		got = "now"
	}
	if d.Slotless {
		got += " slotless"
	}
	if got != want {
		n.t.Errorf("%s, want %s", got, want)
	}
}

// waiting checks the slots, in order.
func (n *nightLine) waiting(want ...string) {
	n.t.Helper()
	timeline, err := n.limiter.Timeline(context.Background(), n.request(""))
	must(n.t, err)
	var got []string
	for _, b := range timeline.Bookings {
		got = append(got, n.shown(b.Slot))
	}
	if !slices.Equal(got, want) {
		n.t.Errorf("there wait %q, want %q", got, want)
	}
}

func (n *nightLine) five(at string) {
	n.t.Helper()
	for i := range 5 {
		n.ask(at, fmt.Sprint("n", i))
	}
}

var fiveInTheMorning = []string{"1 08:00:00", "1 08:00:01.003", "1 08:00:02.006", "1 09:00:00.003", "1 09:00:01.006"}

func TestQuietHoursDeferUntilEnd(t *testing.T) {
	atNight(t, func(n *nightLine) {
		n.want(n.ask("21:59:59.999", "a", n.user("a")), "now")
		d := n.ask("22:00:00", "b", n.user("b"))
		n.want(d, "deferred 1 08:00:00 quiet_hours")
		if got := n.shown(d.Quiet); got != "1 08:00:00" || d.Scope != General || d.Left != 10*time.Hour {
			n.t.Errorf("held until %s by %q, %v left", got, d.Scope, d.Left)
		}
		n.want(n.ask("1 08:00:00", "c", n.user("c")), "now")
		n.want(n.ask("1 08:00:00", "b", n.user("b")), "now")
	})
}

// A line that waits for limits in the evening continues in the morning.
func TestQuietHoursInterruptLine(t *testing.T) {
	atNight(t, func(n *nightLine) {
		policy := n.policy
		policy.MinGap = 30 * time.Second
		n.want(n.ask("21:59:00", "a", under(policy)), "now")
		n.want(n.ask("21:59:01", "b", under(policy)), "deferred 21:59:30 gap")
		n.want(n.ask("21:59:02", "c", under(policy)), "deferred 1 08:00:00 quiet_hours")
		day := n.policy
		day.Rates = []Rate{{1, 24 * time.Hour}}
		for i, want := range []string{"1 08:00:00 quiet_hours", "2 08:00:00.003 1/24h", "3 08:00:00.006 1/24h"} {
			if i > 0 {
				want = strings.Replace(want, "1/24h", "quiet_hours", 1) // just after the end
			}
			n.want(n.ask("23:00:00", fmt.Sprint("n", i), under(day), n.user("other")), "deferred "+want)
		}
	})
}

func TestSlotAfterQuietHoursBeyondHorizonIsRefused(t *testing.T) {
	atNight(t, func(n *nightLine) {
		until := func(end string) func(*Request) {
			return func(r *Request) { r.Horizon = n.at(end).Sub(n.now()) }
		}
		d := n.ask("23:00:00", "a", until("1 07:30:00"))
		n.want(d, "refused 1 08:00:00 quiet_hours")
		if d.Quiet.IsZero() {
			n.t.Error("nothing says that quiet hours held it")
		}
		n.waiting()
		n.want(n.ask("23:00:00", "b", until("1 08:00:00")), "deferred 1 08:00:00 quiet_hours")
	})
}

func TestRequestThatIgnoresQuietHoursIsGranted(t *testing.T) {
	atNight(t, func(n *nightLine) {
		n.five("23:00:00")
		n.want(n.ask("23:01:00", "x", passing), "now")
		d := n.ask("23:01:00.2", "y", passing)
		n.want(d, "deferred 23:01:01 gap slotless")
		if !d.Quiet.IsZero() {
			n.t.Error("quiet hours hold a request that ignores them")
		}
		n.waiting(fiveInTheMorning...)
		n.want(n.ask("23:01:01", "y", passing), "now")
		n.waiting(fiveInTheMorning...)
		n.want(n.ask("1 07:59:59.5", "z", passing), "now")
		n.want(n.ask("1 08:00:00", "n0"), "deferred 1 08:00:00.5 gap")
		n.waiting("1 08:00:00.5", "1 08:00:01.503", "1 08:59:59.5", "1 09:00:00.503", "1 09:00:01.506")
	})
}

// Notifications that pass quiet hours are charged. When they fill a rate, the next one waits
// without a slot.
func TestRequestThatIgnoresQuietHoursIsCharged(t *testing.T) {
	atNight(t, func(n *nightLine) {
		for i, at := range []string{"22:00:00", "22:05:00", "22:10:00"} {
			n.want(n.ask(at, fmt.Sprint("x", i), passing), "now")
		}
		n.want(n.ask("22:15:00", "x3", passing), "deferred 23:00:00 3/1h slotless")
		n.waiting()
		n.want(n.ask("23:00:00", "x3", passing), "now")
		n.want(n.ask("22:59:59.5", "g", passing, n.user("other")), "now")
		n.want(n.ask("23:00:00", "h", passing, n.user("other"), func(r *Request) { r.MaxBooked = 1 }), "deferred 23:00:00.5 gap slotless")
	})
}

// Each notification has its own zone, and they share the user's limits.
func TestQuietHoursByZone(t *testing.T) {
	atNight(t, func(n *nightLine) {
		in := func(zone string) func(*Request) { return func(r *Request) { r.Zone = zoneOf(n.t, zone) } }
		n.want(n.ask("15:00:00", "tokyo", in("Asia/Tokyo")), "deferred 1 00:00:00 quiet_hours")
		n.want(n.ask("22:30:00", "berlin", in("Europe/Berlin")), "deferred 1 08:00:00 quiet_hours")
		n.waiting("1 00:00:00", "1 08:00:00")
		n.want(n.ask("1 00:00:00", "tokyo", in("Asia/Tokyo")), "now")
		n.want(n.ask("1 08:00:00", "berlin", in("Europe/Berlin")), "now")
	})
}

func (n *nightLine) replan(change ...func(*Request)) []Booking {
	n.t.Helper()
	placed, err := n.limiter.Replan(context.Background(), []Request{n.request("", change...)})
	must(n.t, err)
	return placed.Early
}

func TestReplanAfterQuietHoursChange(t *testing.T) {
	for name, c := range map[string]struct {
		hours []string
		moved int
		want  []string
	}{
		"end earlier": {[]string{"22:00-07:00"}, 3, []string{"1 07:00:00", "1 07:00:01.003", "1 07:00:02.006", "1 08:00:00.003", "1 08:00:01.006"}},
		"end later":   {[]string{"22:00-09:00"}, 0, []string{"1 09:00:00", "1 09:00:01.003", "1 09:00:02.006", "1 10:00:00.003", "1 10:00:01.006"}},
		"are no more": {nil, 3, []string{"23:30:00", "23:30:01.003", "23:30:02.006", "1 00:30:00.003", "1 00:30:01.006"}},
	} {
		t.Run(name, func(t *testing.T) {
			atNight(t, func(n *nightLine) {
				n.five("23:00:00")
				n.set(n.at("23:30:00"))
				n.policy.Quiet = hoursOf(n.t, c.hours...)
				if moved := n.replan(); len(moved) != c.moved {
					n.t.Errorf("moved: %v", moved)
				}
				n.waiting(c.want...)
			})
		})
	}
}

// A long line has no slot in any night, and the next day's intervals move no slot.
func TestLongLineSkipsNights(t *testing.T) {
	atNight(t, func(n *nightLine) {
		n.policy.Rates = []Rate{{1, 24 * time.Hour}}
		for i := range 14 {
			n.ask("23:00:00", fmt.Sprint("n", i))
		}
		var want []string
		for i := range 14 {
			want = append(want, n.shown(n.at(fmt.Sprintf("%d 08:00:00.0%02d", i+1, 3*i))))
		}
		n.waiting(want...)
		n.set(n.at("1 01:00:00.5")) // the next UTC day
		if moved := n.replan(); len(moved) > 0 {
			n.t.Errorf("moved: %v", moved)
		}
		n.waiting(want...)
	})
}

// A notification that is late for its slot and asks in quiet hours gets a slot after them.
func TestLateRequestInQuietHoursDefers(t *testing.T) {
	atNight(t, func(n *nightLine) {
		n.want(n.ask("21:59:59", "a"), "now")
		n.want(n.ask("21:59:59.01", "b", func(r *Request) { r.Scopes[0].Policy.MinGap = 990 * time.Millisecond }), "deferred 21:59:59.99 gap")
		n.want(n.ask("22:00:00.29", "b"), "deferred 1 08:00:00 quiet_hours")
		n.waiting("1 08:00:00")
	})
}

// Each user's quiet hours end at a time of its own within the spread.
func TestQuietHoursEndSpread(t *testing.T) {
	atNight(t, func(n *nightLine) {
		n.policy.Night.Spread = 10 * time.Minute
		at := map[string]bool{}
		for i := range 20 {
			d := n.ask("23:00:00", "n", n.user(fmt.Sprint("u", i)))
			if d.At.Before(n.at("1 08:00:00")) || !d.At.Before(n.at("1 08:10:00")) || !d.Quiet.Equal(d.At) || d.Rule != QuietRule {
				n.t.Errorf("%+v", d)
			}
			at[n.shown(d.At)] = true
			again := n.ask("1 07:50:00", "m", n.user(fmt.Sprint("u", i)))
			if !again.Quiet.Equal(d.At) {
				n.t.Errorf("a morning at %s and at %s", n.shown(d.At), n.shown(again.Quiet))
			}
			n.want(n.ask(n.shown(d.At), "n", n.user(fmt.Sprint("u", i))), "now")
		}
		if len(at) < 15 {
			n.t.Errorf("only %d instants", len(at))
		}
	})
}

// With the store unavailable and on_outage open, quiet hours still hold.
func TestQuietHoursHoldDuringOutage(t *testing.T) {
	t.Parallel()
	policy := Policy{Quiet: hoursOf(t, "22:00-08:00"), Night: quiet.Night{Zone: zoneOf(t, "Europe/Berlin")}}
	tokyo := zoneOf(t, "Asia/Tokyo")
	synctest.Test(t, func(t *testing.T) { // the time is 2000-01-01T01:00 in Berlin
		s := new(scriptedStore)
		s.set(storeRefuses)
		o := WithOutage(s, Open, OutageOptions{})
		for _, c := range []struct {
			what   string
			change func(*Request)
			want   Status
		}{
			{"at night", func(*Request) {}, Deferred},
			{"passing", passing, Granted},
			{"in the morning of Tokyo", func(r *Request) { r.Zone = tokyo }, Granted},
			{"to its end", func(r *Request) { r.Horizon = time.Hour }, Refused},
		} {
			r := Request{User: "u", ID: "n", Scopes: []Scope{{General, policy}}, Horizon: 7 * time.Hour}
			c.change(&r)
			one, err1 := o.Acquire(t.Context(), r)
			all, err2 := o.AcquireAll(t.Context(), []Request{r, {User: "u", ID: "m", Scopes: r.Scopes}})
			if err1 != nil || err2 != nil || len(all) != 1 {
				t.Fatal(c.what, err1, err2)
			}
			for _, d := range []Decision{one, all[0]} {
				if held := d.Rule == QuietRule && d.Scope == General && d.Left == 7*time.Hour && d.Quiet.Equal(d.At); d.Status != c.want || !d.Unchecked || held != (c.want != Granted) {
					t.Errorf("%s: %+v", c.what, d)
				}
			}
		}
	})
}
