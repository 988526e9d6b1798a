package words

import (
	"testing"

	"github.com/pushpace/pushpace/internal/operate/auditlog"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
)

func TestAction(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		e        auditlog.Entry
		what, of string
	}{
		{auditlog.Entry{Action: auditlog.SetLimit, Level: limits.Level{App: "shop", User: "ada b", Category: "news"}, Count: 1}, "set a limit", "app shop, user 'ada b', category news"},
		{auditlog.Entry{Action: auditlog.SetLimit, Level: limits.Level{Category: "social"}, Count: 1, Limit: "5/1m", Until: noon}, "set a limit", "category social: 5/1m until 2026-11-22T12:00:00.000Z"},
		{auditlog.Entry{Action: auditlog.Mute, Level: limits.Level{User: "ada"}, Count: 1, Until: noon}, "muted", "user ada until 2026-11-22T12:00:00.000Z"},
		{auditlog.Entry{Action: auditlog.UnsetLimit, Level: limits.Level{Quota: "fcm/shop"}, Count: 1}, "removed an override", "quota fcm/shop"},
		{auditlog.Entry{Action: auditlog.ImportLimits, Apps: []string{"mail", "shop"}, Count: 3}, "imported overrides", "apps mail and shop"},
		{auditlog.Entry{Action: auditlog.ImportLimits, Count: 3}, "imported overrides", ""},
		{auditlog.Entry{Action: auditlog.Pause, Level: limits.Level{App: "shop", Category: "news"}, Platform: push.APNs, Count: 1}, "paused", "app shop, category news, platform apns"},
		{auditlog.Entry{Action: auditlog.Pause, Count: 1}, "paused", "everything"},
		{auditlog.Entry{Action: auditlog.Cancel, Level: limits.Level{App: "shop"}, ID: "one", Count: 1}, "cancelled", "notification one, app shop"},
		{auditlog.Entry{Action: auditlog.Cancel, Count: 12}, "cancelled", "notifications"},
		{auditlog.Entry{Action: auditlog.Cancel, Level: limits.Level{App: "shop", User: "ada"}, Group: "thread chat-17", Count: 5}, "cancelled", "notifications, app shop, user ada, thread chat-17"},
		{auditlog.Entry{Action: auditlog.Purge, Count: 1}, "purged", "dead letter"},
		{auditlog.Entry{Action: auditlog.Requeue, ID: "\x1b", Count: 1}, "requeued", `dead letter "\x1b"`},
		{auditlog.Entry{Action: "new\n", Count: 1}, `"new\n"`, ""},
	} {
		if what, of := Action(c.e); what != c.what || of.String() != c.of {
			t.Errorf("%+v: %q %q", c.e, what, of)
		}
	}
	said := map[string]bool{}
	for _, a := range auditlog.Actions {
		what, _ := Action(auditlog.Entry{Action: a})
		if said[what] || did[a] == "" {
			t.Errorf("%s: %q", a, what)
		}
		said[what] = true
	}
}
