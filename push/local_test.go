//go:build unix

package push_test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/push"
)

// A local time is the first instant at which the user's clock shows it or, if the clock skips
// it, a later time.
func TestNotBeforeLocalIsFirstInstantOfLocalTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.November, 25, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ local, own, others, want string }{
		{"2026-11-26T09:00", "Europe/Berlin", "", "2026-11-26T08:00:00Z"},
		{"2026-11-26T09:00:30", "Asia/Tokyo", "Europe/Berlin", "2026-11-26T00:00:30Z"},
		{"2026-11-26T09:00", "", "America/New_York", "2026-11-26T14:00:00Z"},
		{"2027-03-28T02:30", "Europe/Berlin", "", "2027-03-28T01:00:00Z"},
		{"2026-10-25T02:30", "Europe/Berlin", "", "2026-10-25T00:30:00Z"},
		{"2011-12-30T09:00", "Pacific/Apia", "", "2011-12-30T10:00:00Z"},
		{"2026-11-25T13:00", "UTC", "", "2026-11-25T13:00:00Z"},
	} {
		n := valid()
		n.NotBeforeLocal, n.TimeZone = c.local, c.own
		given := *n
		got, err := push.Accepted(n.InTimeZone(c.others), now)
		if err != nil || got.NotBefore.Format(time.RFC3339) != c.want || got.NotBeforeLocal != "" || got.TimeZone != cmp.Or(c.own, c.others) {
			t.Errorf("%s in %q or %q: %s, %v", c.local, c.own, c.others, got.NotBefore, err)
		}
		if n.NotBeforeLocal != given.NotBeforeLocal || n.TimeZone != given.TimeZone {
			t.Errorf("what was handed over is changed: %+v", n)
		}
	}
	plain := valid()
	plain.TimeZone = "Asia/Tokyo"
	if got, err := push.Accepted(plain, now); err != nil || got.TimeZone != "Asia/Tokyo" || !got.NotBefore.IsZero() {
		t.Errorf("a zone alone: %+v, %v", got, err)
	}
}

func TestInvalidNotBeforeLocalIsRefused(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.November, 25, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		change func(*push.Notification)
		want   string
	}{
		{func(n *push.Notification) { n.TimeZone = "" }, "/time_zone: is missing: not_before_local needs"},
		{func(n *push.Notification) { n.TimeZone = "Mars/Olympus" }, "/time_zone: is no IANA time zone such as Europe/Berlin"},
		{func(n *push.Notification) { n.TimeZone = "Local" }, "/time_zone: is no IANA"},
		{func(n *push.Notification) { n.TimeZone, n.NotBeforeLocal = "+02:00", "" }, "/time_zone: is no IANA"},
		{func(n *push.Notification) { n.TimeZone = strings.Repeat("x", 65) }, "/time_zone: is no IANA"},
		{func(n *push.Notification) { n.NotBeforeLocal = "2026-11-26T09:00Z" }, "/not_before_local: must be a date and time without an offset"},
		{func(n *push.Notification) { n.NotBeforeLocal = "2026-11-26T9:00" }, "/not_before_local: must be a date and time"},
		{func(n *push.Notification) { n.NotBeforeLocal = "2026-11-26T09:00:30.75" }, "/not_before_local: must be a date and time"},
		{func(n *push.Notification) { n.NotBeforeLocal = "2026-11-26" }, "/not_before_local: must be a date and time"},
		{func(n *push.Notification) { n.NotBeforeLocal = "2026-02-30T09:00" }, "/not_before_local: must be a date and time"},
		{func(n *push.Notification) { n.NotBefore = now }, "/not_before_local: must be left out beside not_before"},
		{func(n *push.Notification) { n.ExpiresAt = now.Add(time.Hour) }, "/expires_at: must be after not_before"},
		{func(n *push.Notification) { n.TTL = push.Duration(time.Hour) }, "/ttl: is over before not_before"},
		{func(n *push.Notification) { n.NotBeforeLocal, n.TimeZone = "9999-12-31T23:00", "America/New_York" }, "/not_before_local: must be in the years 0 to 9999"},
	} {
		n := valid()
		n.NotBeforeLocal, n.TimeZone = "2026-11-26T09:00", "Europe/Berlin"
		c.change(n)
		if _, err := push.Accepted(n, now); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", n, err, c.want)
		}
	}
	n := valid()
	n.ID, n.NotBeforeLocal, n.TimeZone = "x", "2026-11-26T09:00", "Europe/Berlin"
	if _, err := push.Encode(&push.Job{Notification: n, AcceptedAt: now}); err == nil || !strings.Contains(err.Error(), "must be turned into not_before") {
		t.Errorf("a job with it: %v", err)
	}
}

// A producer's zone applies to notifications without a zone. With or without that zone, the same ID means
// the same notification.
func TestProducerTimeZoneIsDefault(t *testing.T) {
	t.Parallel()
	p := newProducer(t).WithTimeZone("Europe/Berlin")
	n := valid()
	n.ID, n.NotBeforeLocal = "at-nine", "2099-11-26T09:00"
	if r, err := p.Enqueue(t.Context(), n); err != nil || r.Known {
		t.Fatalf("%+v, %v", r, err)
	}
	status, err := p.Status(t.Context(), "at-nine")
	if want := time.Date(2099, time.November, 26, 8, 0, 0, 0, time.UTC); err != nil || !status.NotBefore.Equal(want) || status.Job != "scheduled" {
		t.Errorf("%+v, %v", status, err)
	}
	n.NotBefore, n.NotBeforeLocal, n.TimeZone = status.NotBefore, "", "Europe/Berlin"
	if r, err := p.Enqueue(t.Context(), n); err != nil || !r.Known {
		t.Errorf("%+v, %v", r, err)
	}
	n.NotBefore, n.NotBeforeLocal, n.TimeZone = time.Time{}, "2099-11-26T09:00", "Asia/Tokyo"
	if got := p.EnqueueAll(t.Context(), []*push.Notification{n}); got[0].Err != nil || !got[0].Known {
		t.Errorf("%+v", got)
	}
}

// valid returns a notification with the required fields only.
func valid() *push.Notification {
	return &push.Notification{App: "shop", User: "ada", Title: "Good morning", Targets: []push.Target{{Platform: push.FCM, Token: "token"}}}
}

// A job keeps the notification's zone, even an invalid zone that a different program wrote: workers
// replace it.
func TestJobTimeZoneIsNotValidated(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.November, 25, 12, 0, 0, 0, time.UTC)
	for _, zone := range []string{"", "Asia/Tokyo", "Mars/Olympus", "Local", strings.Repeat("x", 500)} {
		n := valid()
		n.ID, n.TimeZone = "x", zone
		data, err := push.Encode(&push.Job{Notification: n, AcceptedAt: now})
		if err != nil || strings.Contains(string(data), "time_zone") != (zone != "") {
			t.Errorf("%q: %s, %v", zone, data, err)
		}
		if job, err := push.Decode(data); err != nil || job.Notification.TimeZone != zone {
			t.Errorf("%q: %+v, %v", zone, job, err)
		}
	}
}
