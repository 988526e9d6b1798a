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

// auditLogTimeout bounds writing an entry of the audit log, and reading its apps.
const auditLogTimeout = 2 * time.Second

// did logs the action, and records it in the audit log if it changed anything.
func (o *Operator) did(ctx context.Context, a *Action, e auditlog.Entry, more ...slog.Attr) {
	o.s.with.Log.LogAttrs(ctx, slog.LevelInfo, a.done, append([]slog.Attr{slog.String("by", o.principal.Name), slog.String("remote", o.remote)}, more...)...)
	o.record(ctx, a, e)
}

// record writes the entry to the audit log, even after ctx has ended. A failure is only logged,
// because the action is done.
func (o *Operator) record(ctx context.Context, a *Action, e auditlog.Entry) {
	if o.s.auditLog == nil || e.Count == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditLogTimeout)
	defer cancel()
	e.By, e.Action = o.principal.Name, a.as
	e.Mute = false // the action itself says that it is a mute
	if err := o.s.auditLog.Add(ctx, e); err != nil {
		o.s.with.Log.LogAttrs(ctx, slog.LevelWarn, "an action is missing in the audit log", slog.String("action", string(a.as)), slog.String("cause", Cause(err)))
	}
}

// entryOn returns an entry about notifications or dead letters. A ref without an app gets the
// recorded app if the operator sees it, otherwise no app: several apps may use the same ID.
func (o *Operator) entryOn(ctx context.Context, refs []push.Ref) auditlog.Entry {
	if o.s.auditLog == nil {
		return auditlog.Entry{}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditLogTimeout)
	defer cancel()
	var bare []string
	for _, ref := range refs {
		if ref.App == "" {
			bare = append(bare, ref.ID)
		}
	}
	known, _ := o.s.with.Records.Briefs(ctx, bare) // without the records no app is known
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

// entryIn returns an entry about one item for each of the apps; "" is an unknown app. With an
// unknown app, the entry of a principal of some apps names all of that principal's apps, since it
// cannot have changed items of other apps.
func (o *Operator) entryIn(apps []string) auditlog.Entry {
	e := auditlog.Entry{Count: len(apps)}
	if slices.Contains(apps, "") && !o.SeesAll() {
		apps = o.principal.Apps
	}
	e.In(apps)
	return e
}

// Actions returns the entries of the audit log that the principal sees, newest first, before a
// cursor ("" for all); newest bounds their number. Its error may be auditlog.ErrCursor.
func (o *Operator) Actions(ctx context.Context, before string, newest int) ([]auditlog.Entry, error) {
	if err := o.may(Look); err != nil {
		return nil, err
	}
	its := []auditlog.Entry{}
	if o.s.auditLog == nil {
		return its, nil
	}
	all, _ := o.s.with.Quotas() // an unknown quota has no known app
	err := o.s.auditLog.Before(ctx, before, func(e auditlog.Entry) bool {
		if o.seesEntry(e, all) {
			its = append(its, e)
		}
		return len(its) < newest
	})
	return its, err
}

// seesEntry reports whether the principal sees all apps of the entry or, without apps, its level.
func (o *Operator) seesEntry(e auditlog.Entry, all Quotas) bool {
	if len(e.Apps) > 0 {
		return !slices.ContainsFunc(e.Apps, func(app string) bool { return !o.Sees(app) })
	}
	return o.seesLevel(e.Level, all)
}
