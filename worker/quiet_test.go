package worker

import (
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/zone"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/quiet"
)

// nightly returns limits with quiet hours from 22:00 to 08:00 in Berlin, except for alerts and security.
func nightly(t *testing.T) *limits.Policies {
	t.Helper()
	berlin, err := zone.Load("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	hours, err := quiet.ParseHours([]string{"22:00-08:00"})
	if err != nil {
		t.Fatal(err)
	}
	return limits.New(
		throttle.Policy{Quiet: hours, Night: quiet.Night{Zone: berlin}},
		map[string]throttle.Policy{"alerts": {Quiet: quiet.Hours{}}, "security": {Exempt: true}},
	)
}

// Quiet hours do not count as retry time: from an attempt at 21:59 to an attempt at 08:00, 1 min counts.
func TestQuietHoursDoNotCountAsRetryTime(t *testing.T) {
	t.Parallel()
	tokyo, err := zone.Load("Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	o := &Options{Limits: nightly(t), Attempts: 10, RetryTime: 6 * time.Hour}
	day := time.Date(2026, time.November, 25, 0, 0, 0, 0, time.UTC)
	at := func(hour, minute int) time.Time {
		return day.Add(time.Duration(hour-1)*time.Hour + time.Duration(minute)*time.Minute)
	} // in Berlin
	for name, c := range map[string]struct {
		first, now time.Time
		change     func(*delivery)
		held       time.Duration
	}{
		"before any attempt":  {time.Time{}, at(32, 0), nil, 0},
		"within the day":      {at(9, 0), at(21, 0), nil, 0},
		"over the night":      {at(21, 59), at(32, 1), nil, 10 * time.Hour},
		"begun in it":         {at(23, 0), at(32, 0), nil, 9 * time.Hour},
		"still in it":         {at(21, 59), at(23, 30), nil, 90 * time.Minute},
		"over a month":        {at(9, 0), at(9, 0).Add(30 * 24 * time.Hour), nil, 30 * 10 * time.Hour},
		"critical":            {at(21, 59), at(32, 1), func(d *delivery) { d.Priority = push.Critical }, 0},
		"a category's own":    {at(21, 59), at(32, 1), func(d *delivery) { d.Category = "alerts" }, 0},
		"an exempt category":  {at(21, 59), at(32, 1), func(d *delivery) { d.Category = "security" }, 0},
		"of a user elsewhere": {at(9, 0), at(21, 0), func(d *delivery) { d.zone = tokyo }, 7 * time.Hour}, // 14:00 to 24:00 here
	} {
		d := &delivery{Notification: &push.Notification{App: "shop", User: "ada"}, first: c.first}
		if c.change != nil {
			c.change(d)
		}
		if got := o.budget(d, c.now); got.time != 6*time.Hour+c.held || got.attempts != 10 {
			t.Errorf("%s: %+v, want %s more", name, got, c.held)
		}
	}
}

// A deferred job names the end of the quiet hours that deferred it, in its user's zone.
func TestDeferredJobReportsEndOfQuietHours(t *testing.T) {
	t.Parallel()
	tokyo, err := zone.Load("Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	seven := time.Date(2026, time.November, 26, 7, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		decision throttle.Decision
		zone     *time.Location
		want     string
	}{
		"by a limit":           {throttle.Decision{At: seven, Rule: "1/24h"}, nil, "0001-01-01T00:00:00Z"},
		"at their end":         {throttle.Decision{At: seven, Rule: throttle.QuietRule, Quiet: seven}, nil, "2026-11-26T08:00:00+01:00"},
		"behind it":            {throttle.Decision{At: seven.Add(time.Hour), Rule: "3/1h", Quiet: seven}, nil, "2026-11-26T08:00:00+01:00"},
		"before they begin":    {throttle.Decision{At: seven, Rule: throttle.QuietRule}, nil, "2026-11-26T08:00:00+01:00"},
		"of a user elsewhere":  {throttle.Decision{At: seven, Rule: throttle.QuietRule, Quiet: seven}, tokyo, "2026-11-26T16:00:00+09:00"},
		"without a slot there": {throttle.Decision{At: seven, Slotless: true, Quiet: seven}, nil, "2026-11-26T08:00:00+01:00"},
	} {
		d := &delivery{Notification: &push.Notification{App: "shop", User: "ada"}, zone: c.zone}
		d.scopes = nightly(t).Scopes("shop", "ada", "")
		c.decision.Status, c.decision.Left = throttle.Deferred, 9*time.Hour
		to := d.requeueAtSlot(c.decision)
		if got := to.Quiet.Format(time.RFC3339); got != c.want || to.Why != store.Deferred {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
