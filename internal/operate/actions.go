package operate

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/operate/auditlog"
	"github.com/pushpace/pushpace/push"
)

// logWithin is how long writing an entry of the audit log may take.
const logWithin = 2 * time.Second

// did logs what was done, and records it in the audit log. What was done to none is not recorded.
func (o *Operator) did(ctx context.Context, a *Action, e auditlog.Entry, more ...slog.Attr) {
	o.s.with.Log.LogAttrs(ctx, slog.LevelInfo, a.done, append([]slog.Attr{slog.String("by", o.who.Name), slog.String("remote", o.remote)}, more...)...)
	o.record(ctx, a, e)
}

// record writes the entry to the audit log. It was done, so that a failure goes to the log
// alone, and the end of ctx does not keep it from being written.
func (o *Operator) record(ctx context.Context, a *Action, e auditlog.Entry) {
	if o.s.auditLog == nil || e.Count == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logWithin)
	defer cancel()
	e.By, e.Action = o.who.Name, a.as
	e.Mute = false // its level is whose it is
	if err := o.s.auditLog.Add(ctx, e); err != nil {
		o.s.with.Log.LogAttrs(ctx, slog.LevelWarn, "an action is missing in the audit log", slog.String("action", string(a.as)), slog.String("cause", Cause(err)))
	}
}

// entryOn is an entry about notifications or dead letters of the apps that they are named
// with, or else are recorded, as far as it sees them: others may have the same IDs.
func (o *Operator) entryOn(ctx context.Context, refs []push.Ref) auditlog.Entry {
	if o.s.auditLog == nil {
		return auditlog.Entry{}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logWithin)
	defer cancel()
	var bare []string
	for _, ref := range refs {
		if ref.App == "" {
			bare = append(bare, ref.ID)
		}
	}
	known, _ := o.s.with.Records.Briefs(ctx, bare) // without them no app is known
	apps := make([]string, len(refs))
	for i, ref := range refs {
		if its := cmp.Or(ref.App, known[ref.ID].App); o.Sees(its) {
			apps[i] = its
		}
	}
	e := o.entryIn(apps)
	if len(refs) == 1 && push.ValidID(refs[0].ID) {
		e.ID = refs[0].ID
	}
	return e
}

// entryIn is an entry about as many things as there are apps, each of its app. Where one is
// not known, "", a bearer of some apps has touched none but its own.
func (o *Operator) entryIn(apps []string) auditlog.Entry {
	e := auditlog.Entry{Count: len(apps)}
	if slices.Contains(apps, "") && !o.SeesAll() {
		apps = o.who.Apps
	}
	e.In(apps)
	return e
}

// Actions returns the newest actions of operators that it sees, before a cursor, "" for
// all, the newest first, at most so many. Its error may be auditlog.ErrCursor.
func (o *Operator) Actions(ctx context.Context, before string, newest int) ([]auditlog.Entry, error) {
	if err := o.may(Look); err != nil {
		return nil, err
	}
	its := []auditlog.Entry{}
	if o.s.auditLog == nil {
		return its, nil
	}
	all, _ := o.s.with.Quotas() // of those that are not known, nobody's app is known
	err := o.s.auditLog.Before(ctx, before, func(e auditlog.Entry) bool {
		if o.seesEntry(e, all) {
			its = append(its, e)
		}
		return len(its) < newest
	})
	return its, err
}

// seesEntry reports whether all that the entry is about is of apps of its own, or it is
// about a quota that an app of its own uses.
func (o *Operator) seesEntry(e auditlog.Entry, all Quotas) bool {
	if len(e.Apps) > 0 {
		return !slices.ContainsFunc(e.Apps, func(app string) bool { return !o.Sees(app) })
	}
	return o.seesLevel(e.Level, all)
}
