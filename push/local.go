package push

import (
	"time"

	"github.com/pushpace/pushpace/internal/base/names"
	"github.com/pushpace/pushpace/internal/base/zone"
)

// WithTimeZone returns a producer that uses the zone for notifications with NotBeforeLocal and without a
// TimeZone. name is an IANA name: limits.time_zone of the configuration. With "", it refuses such
// notifications.
func (p *Producer) WithTimeZone(name string) *Producer {
	own := *p
	own.zone = name
	return &own
}

// InTimeZone returns the notification, with the zone as its TimeZone if it needs a zone and has
// none.
func (n *Notification) InTimeZone(name string) *Notification {
	if n == nil || n.NotBeforeLocal == "" || n.TimeZone != "" {
		return n
	}
	zoned := *n
	zoned.TimeZone = name
	return &zoned
}

// localLayouts are the forms of NotBeforeLocal.
var localLayouts = []string{"2006-01-02T15:04", "2006-01-02T15:04:05"}

// earliest returns NotBefore, or the instant of NotBeforeLocal; zero if neither is set, or the latter is
// invalid.
func (n *Notification) earliest() time.Time {
	if n.NotBeforeLocal == "" {
		return n.NotBefore
	}
	at, _ := n.notBeforeLocal()
	return at
}

// notBeforeLocal returns the instant of NotBeforeLocal, which must be set.
func (n *Notification) notBeforeLocal() (at time.Time, f Faults) {
	local, ok := readLocal(n.NotBeforeLocal)
	if !ok {
		f.Add("/not_before_local", "must be a date and time without an offset, such as 2026-11-25T09:00")
	}
	if n.TimeZone == "" {
		f.Add("/time_zone", "is missing: not_before_local needs the user's time zone, as no limits.time_zone applies here")
	}
	in, err := zone.Load(n.TimeZone)
	if len(f) > 0 || err != nil {
		return time.Time{}, f
	}
	return time.Unix(local.First(in), 0).UTC(), nil
}

func readLocal(text string) (zone.Local, bool) {
	for _, layout := range localLayouts {
		if shown, err := time.Parse(layout, text); err == nil && len(text) == len(layout) { // Parse accepts fractions too
			return zone.Shown(shown), true
		}
	}
	return 0, false
}

// checkLocal checks TimeZone and NotBeforeLocal.
func (n *Notification) checkLocal(f *Faults) {
	if n.TimeZone != "" {
		if _, err := zone.Load(n.TimeZone); err != nil && names.Ends(n.TimeZone) == "" {
			f.Add("/time_zone", "%s", err)
		}
	}
	if n.NotBeforeLocal == "" {
		return
	}
	at, faults := n.notBeforeLocal()
	*f = append(*f, faults...)
	checkInstant(f, "/not_before_local", at)
	if !n.NotBefore.IsZero() {
		f.Add("/not_before_local", "must be left out beside not_before: give the time by only one of them")
	}
}
