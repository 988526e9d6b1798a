package throttle

import (
	"testing"
	"time"
)

// What passes quiet hours, what names no zone, and what returns after an attempt of a
// notification that was accepted before, leave those who wait by the clocks that they wait by.
func TestWhoSaysTheZone(t *testing.T) {
	atNight(t, func(n *nightLine) {
		tokyo, berlin := zoneOf(n.t, "Asia/Tokyo"), zoneOf(n.t, "Europe/Berlin")
		in := func(r *Request) { r.Zone = tokyo }
		n.want(n.ask("15:00:00", "held", in), "deferred 1 00:00:00 quiet_hours")
		n.ask("15:00:01", "critical", passing, func(r *Request) { r.Zone = berlin })
		n.waiting("1 00:00:00")
		n.want(n.ask("15:00:02", "nameless"), "deferred 1 00:00:01.003 gap")
		n.want(n.ask("15:00:03", "again", func(r *Request) { r.Zone, r.ZoneAt = berlin, n.at("14:00:00") }), "deferred 1 00:00:02.006 gap")
		n.waiting("1 00:00:00", "1 00:00:01.003", "1 00:00:02.006")
	})
}

// One of another category, whose claim sees only that somebody waits far away, keeps to the
// clocks that they wait by.
func TestAClaimBesideAnotherZone(t *testing.T) {
	atNight(t, func(n *nightLine) {
		n.want(n.ask("15:00:00", "held", func(r *Request) { r.Zone = zoneOf(n.t, "Asia/Tokyo") }), "deferred 1 00:00:00 quiet_hours")
		other := func(r *Request) {
			r.Category, r.Scopes = "b", []Scope{{General, n.policy}, {"b", Policy{MinGap: time.Second}}}
		}
		n.want(n.ask("15:00:01", "b0", other), "deferred 1 00:00:01.003 gap")
		n.want(n.ask("15:00:02", "b1", other), "deferred 1 00:00:02.006 gap")
	})
}
