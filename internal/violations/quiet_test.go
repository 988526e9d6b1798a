package violations

import (
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/zone"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/quiet"
)

// A push in quiet hours is a violation, by the clock of its user's zone or the policy's, and by the
// day on which the quiet hours began. It is none if the push passes, or if its category has
// different quiet hours or none.
func TestFindReportsPushesInQuietHours(t *testing.T) {
	t.Parallel()
	berlin, err := zone.Load("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	tokyo, err := zone.Load("Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	night := quiet.Night{Zone: berlin, Spread: time.Hour}
	of := func(windows ...string) throttle.Policy {
		hours, err := quiet.ParseHours(windows)
		if err != nil {
			t.Fatal(err)
		}
		return throttle.Policy{Quiet: hours, Night: night}
	}
	general := of("Mo-Fr 22:00-08:00", "Sa 12:00-13:00")
	categories := map[string]throttle.Policy{"alerts": of(), "news": of("Fr 09:00-10:00"), "orders": {}, "security": {Exempt: true}}
	for _, c := range []struct {
		at, category string // by Berlin's clock
		passes       bool
		zone         *time.Location // its user's
		want         string         // by which scope it was too early, and how much
	}{
		{"2026-11-26T21:59", "", false, nil, ""},
		{"2026-11-26T22:00", "", false, nil, "all 10h0m0s"},
		{"2026-11-27T07:59", "", false, nil, "all 1m0s"},
		{"2026-11-27T08:00", "", false, nil, ""},
		{"2026-11-28T07:00", "orders", false, nil, "all 1h0m0s"}, // the quiet hours began on Friday
		{"2026-11-28T23:00", "", false, nil, ""},
		{"2026-11-29T07:00", "", false, nil, ""},
		{"2026-11-30T07:00", "", false, nil, ""}, // no quiet hours began on Sunday
		{"2026-11-28T12:30", "", false, nil, "all 30m0s"},
		{"2026-11-26T23:00", "", true, nil, ""},
		{"2026-11-26T23:00", "alerts", false, nil, ""},
		{"2026-11-26T23:00", "security", false, nil, ""},
		{"2026-11-26T23:00", "news", false, nil, ""},
		{"2026-11-27T09:30", "news", false, nil, "news 30m0s"},
		{"2026-11-26T23:00", "", false, tokyo, "all 1h0m0s"}, // 07:00 in Tokyo
		{"2026-11-27T07:00", "", false, tokyo, ""},
	} {
		at, err := time.ParseInLocation("2006-01-02T15:04", c.at, berlin)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, v := range Find([]Push{{App: "shop", User: "u", Category: c.category, At: at, Passes: c.passes, Zone: c.zone}}, general, categories, time.Second) {
			got += v.Scope + " " + v.Early.String()
		}
		if got != c.want {
			t.Errorf("%s %s: %q, want %q", c.at, c.category, got, c.want)
		}
	}
}
