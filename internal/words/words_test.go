package words

import (
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/throttle"
)

// Quiet hours end by the user's clock, and at an instant, after which a limit may defer.
func TestQuietHours(t *testing.T) {
	t.Parallel()
	seven := time.Date(2026, time.November, 26, 7, 4, 12, 0, time.UTC)
	berlin := time.FixedZone("", 60*60)
	for want, w := range map[string]inspect.Waits{
		"its user's quiet hours":                                                    {},
		"quiet hours until 2026-11-26T07:04:12.000Z":                                {QuietUntil: seven, Rule: "quiet_hours", Reason: "quiet hours of the general limits", Until: seven},
		"quiet hours until 08:04:12 by the user's clock (2026-11-26T07:04:12.000Z)": {QuietUntil: seven.In(berlin)},
		"quiet hours until 08:04:12 by the user's clock (2026-11-26T07:04:12.000Z), then for 3/1h of the general limits until 2026-11-26T08:00:01.000Z": {
			QuietUntil: seven.In(berlin), Rule: "3/1h", Reason: "3/1h of the general limits", Until: time.Date(2026, time.November, 26, 8, 0, 1, 0, time.UTC),
		},
	} {
		w.For = inspect.ForQuiet
		got := Waits(&inspect.Status{Record: &store.Record{}, Waits: &w}, seven)
		if got.For[0].String() != want || !got.Until.IsZero() { // each instant is shown once
			t.Errorf("%s until %s, want %s", got.For[0], got.Until, want)
		}
	}
	for scope, want := range map[string]string{throttle.General: "the general quiet hours", "news": "the quiet hours of category news"} {
		if got := Limit(scope, throttle.QuietRule, 0); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestCause(t *testing.T) {
	t.Parallel()
	said := map[string]bool{}
	for _, c := range inspect.Causes {
		if said[Cause(c)] || Cause(c) == string(c) {
			t.Errorf("%s: %q", c, Cause(c))
		}
		said[Cause(c)] = true
	}
	if Cause("news") != "news" {
		t.Error("one that is not known is not told")
	}
}
