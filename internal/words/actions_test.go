package words

import (
	"testing"

	"github.com/pushpace/pushpace/internal/trail"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
)

func TestAction(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		e        trail.Entry
		what, of string
	}{
		{trail.Entry{Action: trail.SetLimit, Level: limits.Level{App: "shop", User: "ada b", Category: "news"}, Count: 1}, "set a limit", "app shop, user 'ada b', category news"},
		{trail.Entry{Action: trail.UnsetLimit, Level: limits.Level{Quota: "fcm/shop"}, Count: 1}, "removed an override", "quota fcm/shop"},
		{trail.Entry{Action: trail.ImportLimits, Apps: []string{"mail", "shop"}, Count: 3}, "imported overrides", "apps mail and shop"},
		{trail.Entry{Action: trail.ImportLimits, Count: 3}, "imported overrides", ""},
		{trail.Entry{Action: trail.Pause, Level: limits.Level{App: "shop", Category: "news"}, Platform: push.APNs, Count: 1}, "paused", "app shop, category news, platform apns"},
		{trail.Entry{Action: trail.Pause, Count: 1}, "paused", "everything"},
		{trail.Entry{Action: trail.Cancel, Level: limits.Level{App: "shop"}, ID: "one", Count: 1}, "cancelled", "notification one, app shop"},
		{trail.Entry{Action: trail.Cancel, Count: 12}, "cancelled", "notifications"},
		{trail.Entry{Action: trail.Purge, Count: 1}, "purged", "dead letter"},
		{trail.Entry{Action: trail.Requeue, ID: "\x1b", Count: 1}, "requeued", `dead letter "\x1b"`},
		{trail.Entry{Action: "new\n", Count: 1}, `"new\n"`, ""},
	} {
		if what, of := Action(c.e); what != c.what || of.String() != c.of {
			t.Errorf("%+v: %q %q", c.e, what, of)
		}
	}
	said := map[string]bool{}
	for _, a := range trail.Actions {
		what, _ := Action(trail.Entry{Action: a})
		if said[what] || did[a] == "" {
			t.Errorf("%s: %q", a, what)
		}
		said[what] = true
	}
}
