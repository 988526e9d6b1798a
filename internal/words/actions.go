package words

import (
	"strings"

	"github.com/pushpace/pushpace/internal/operate/auditlog"
)

// did has each action's verb, and things the noun for several objects.
var (
	did = map[auditlog.Action]string{
		auditlog.SetLimit: "set a limit", auditlog.UnsetLimit: "removed an override", auditlog.UndoLimit: "undid a change of a limit", auditlog.ImportLimits: "imported overrides",
		auditlog.Mute: "muted", auditlog.Unmute: "unmuted",
		auditlog.Pause: "paused", auditlog.Resume: "resumed", auditlog.Cancel: "cancelled", auditlog.Requeue: "requeued", auditlog.Purge: "purged",
		auditlog.ConfirmLoss: "confirmed a loss of data",
	}
	things = map[auditlog.Action]string{auditlog.Cancel: "notification", auditlog.Requeue: "dead letter", auditlog.Purge: "dead letter"}
)

// Action describes an action, its object, end and reason: "paused", "app shop, category news
// until 2026-12-24T20:00:00.000Z: a new certificate".
func Action(e auditlog.Entry) (what string, of Sentence) {
	what = did[e.Action]
	if what == "" {
		what = Quoted(string(e.Action))
	}
	var parts []string
	if thing := things[e.Action]; thing != "" && e.Count != 1 {
		parts = append(parts, thing+"s")
	} else if thing != "" {
		parts = append(parts, strings.TrimSuffix(thing+" "+Quoted(e.ID), " -"))
	}
	if level := Level(e.Level); level != "" {
		parts = append(parts, level)
	}
	if e.Group != "" {
		parts = append(parts, Printable(e.Group))
	}
	if e.Platform != "" {
		parts = append(parts, "platform "+Quoted(string(e.Platform)))
	}
	if len(e.Apps) > 0 {
		apps := make([]string, len(e.Apps))
		for i, app := range e.Apps {
			apps[i] = Quoted(app)
		}
		parts = append(parts, "apps "+strings.Join(apps, " and "))
	}
	if len(parts) == 0 && (e.Action == auditlog.Pause || e.Action == auditlog.Resume) {
		parts = append(parts, "everything")
	}
	of = Say(strings.Join(parts, ", "))
	if e.Limit != "" {
		of = Say(of, ": ", Printable(e.Limit))
	}
	if !e.Until.IsZero() {
		of = Say(of, " ", End(e.Until))
	}
	if e.Reason != "" {
		of = Say(of, ": ", Printable(e.Reason))
	}
	return what, of
}
