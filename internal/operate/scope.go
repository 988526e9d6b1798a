package operate

import (
	"context"
	"slices"

	"github.com/pushpace/pushpace/internal/base/names"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate/auditlog"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/pause"
)

// An Action is something that a principal can request.
type Action struct {
	roles []config.Role   // may take it
	done  string          // its log message
	as    auditlog.Action // its name in the audit log
}

// Allows reports whether the principal's role may take the action.
func (a *Action) Allows(p Principal) bool { return p.May(a.roles) }

var (
	producers = []config.Role{config.Producer, config.Operator}
	watchers  = []config.Role{config.Producer, config.Viewer, config.Operator}
	viewers   = []config.Role{config.Viewer, config.Operator}
	operators = []config.Role{config.Operator}
)

// The actions.
var (
	Enqueue  = &Action{roles: producers}
	Status   = &Action{roles: watchers}
	Cancel   = &Action{producers, "a notification is cancelled", auditlog.Cancel}
	Withdraw = &Action{producers, "notifications are withdrawn", auditlog.Cancel}

	// Look is every query that changes nothing, except Status.
	Look = &Action{roles: viewers}

	CancelEach   = &Action{operators, "notifications are cancelled", auditlog.Cancel}
	Requeue      = &Action{operators, "a dead letter is requeued", auditlog.Requeue}
	RequeueEach  = &Action{operators, "dead letters are requeued", auditlog.Requeue}
	Purge        = &Action{operators, "a dead letter is purged", auditlog.Purge}
	PurgeEach    = &Action{operators, "dead letters are purged", auditlog.Purge}
	Pause        = &Action{operators, "a pause is begun", auditlog.Pause}
	Resume       = &Action{operators, "pauses are ended", auditlog.Resume}
	SetLimit     = &Action{operators, "a limit is overridden", auditlog.SetLimit}
	ImportLimits = &Action{operators, "limits are imported", auditlog.ImportLimits}
	UnsetLimit   = &Action{operators, "an override of a limit is removed", auditlog.UnsetLimit}
	UndoLimit    = &Action{operators, "a change of a limit is undone", auditlog.UndoLimit}
	Mute         = &Action{operators, "a mute is set", auditlog.Mute}
	Unmute       = &Action{operators, "a mute is removed", auditlog.Unmute}
	ConfirmLoss  = &Action{operators, "a loss of data is confirmed", auditlog.ConfirmLoss}
)

// A RoleError refuses an action that the principal's role does not allow.
type RoleError struct{ Role config.Role }

// Error implements error.
func (e *RoleError) Error() string {
	return "the token's role, " + string(e.Role) + ", does not allow this"
}

// may returns nil for an action that is allowed, else a *RoleError.
func (o *Operator) may(a *Action) error {
	if a.Allows(o.principal) {
		return nil
	}
	return &RoleError{o.principal.Role}
}

// A principal of some apps sees and changes only items of its apps; items of other apps do not
// exist for it. An item that concerns several apps is visible if one of these is the principal's,
// and may be changed only if all of them are.

// Sees reports whether the principal sees the app's items. Only a principal of all apps sees items
// without an app (""), which belong to all apps.
func (o *Operator) Sees(app string) bool {
	return o.principal.Apps == nil || slices.Contains(o.principal.Apps, app)
}

// SeesAll reports whether the principal sees everything, including values not counted by app.
func (o *Operator) SeesAll() bool { return o.principal.Apps == nil }

// Only returns the apps that the principal is limited to; nil for all.
func (o *Operator) Only() []string { return o.principal.Apps }

// MayNarrow returns an *OthersError if a query may not be limited to the app. "" is no limitation.
func (o *Operator) MayNarrow(app string) error {
	if app == "" {
		return nil
	}
	return o.own(app)
}

// KnownApp is MayNarrow, and also returns an *UnknownError for an app that is not configured.
func (o *Operator) KnownApp(app string) error {
	if err := o.MayNarrow(app); err != nil || app == "" {
		return err
	}
	return o.knownApp(app)
}

// Apps returns the configured apps that the principal sees, sorted.
func (o *Operator) Apps() []string { return o.configured().Names() }

// own returns an *OthersError if the principal does not see the app's items.
func (o *Operator) own(app string) error {
	if o.Sees(app) {
		return nil
	}
	return &OthersError{o.principal.Apps}
}

// all returns an *OthersError for a principal of some apps. It guards values not counted by app.
func (o *Operator) all() error {
	if o.SeesAll() {
		return nil
	}
	return &OthersError{o.principal.Apps}
}

// configured returns the configured apps that the principal sees, so that errors name no other app.
// An app that a reload has added is missing until the restart.
func (o *Operator) configured() Apps {
	all := o.s.with.Apps
	if o.SeesAll() || all == nil {
		return all
	}
	its := Apps{}
	for _, app := range o.principal.Apps {
		if platforms, there := all[app]; there {
			its[app] = platforms
		}
	}
	return its
}

// knownApp returns an *UnknownError if the app is not configured or the principal does not see it.
// Without configured apps, any app is known.
func (o *Operator) knownApp(app string) error {
	if fault := o.configured().Fault(app); fault != "" {
		return &UnknownError{Kind: "app", Problem: "app " + fault}
	}
	return nil
}

// seesLevel reports whether the principal may list the level's overrides: the level's app is one
// of the principal's apps, or one of these uses the level's quota.
func (o *Operator) seesLevel(l limits.Level, all Quotas) bool {
	return o.ofLevel(l, all, slices.ContainsFunc[[]string, string])
}

// ownsLevel returns an *OthersError unless the principal may set the level: the level's app must be
// one of the principal's apps, or all apps that use the level's quota must be.
func (o *Operator) ownsLevel(l limits.Level, all Quotas) error {
	every := func(apps []string, sees func(string) bool) bool {
		return len(apps) > 0 && !slices.ContainsFunc(apps, func(app string) bool { return !sees(app) })
	}
	if o.ofLevel(l, all, every) {
		return nil
	}
	return &OthersError{o.principal.Apps}
}

func (o *Operator) ofLevel(l limits.Level, all Quotas, enough func(apps []string, sees func(string) bool) bool) bool {
	if o.SeesAll() || l.Quota == "" {
		return o.Sees(l.App)
	}
	q, err := all.Find(l.Quota)
	return err == nil && enough(q.Apps, o.Sees)
}

// quotasOf returns the quotas that the principal's apps use, with only these apps.
func (o *Operator) quotasOf(all Quotas) Quotas {
	if o.SeesAll() {
		return all
	}
	var its Quotas
	for _, q := range all {
		q.Apps = slices.DeleteFunc(slices.Clone(q.Apps), func(app string) bool { return !o.Sees(app) })
		if len(q.Apps) > 0 {
			its = append(its, q)
		}
	}
	return its
}

// pausesOf returns the pauses of the principal's apps, and the pauses of all apps together.
func (o *Operator) pausesOf(all []pause.Pause) []pause.Pause {
	if o.SeesAll() {
		return all
	}
	its := []pause.Pause{}
	for _, p := range all {
		if p.App == "" || o.Sees(p.App) {
			its = append(its, p)
		}
	}
	return its
}

// resolve returns ref with app and user, for a notification that the principal sees. Its error is
// push.ErrUnknownID for any other notification and for an impossible ID, an *UnknownError for an ID
// with a space at its ends, and an *OthersError for an app that the principal may not use. For a
// principal of all apps it does not read Redis.
func (o *Operator) resolve(ctx context.Context, ref push.Ref) (push.Ref, error) {
	if problem := names.Ends(ref.ID); problem != "" {
		return ref, &UnknownError{Kind: "id", Problem: "ID " + problem}
	}
	if !push.ValidID(ref.ID) {
		return ref, push.ErrUnknownID
	}
	if err := o.MayNarrow(ref.App); err != nil || o.SeesAll() {
		return ref, err
	}
	return o.s.with.Records.Resolve(ctx, ref, o.Sees)
}

// letter returns the dead letter, or store.ErrNoLetter if the principal does not see it. A letter
// with an unreadable job that was not accepted belongs to no app.
func (o *Operator) letter(ctx context.Context, ref push.Ref) (*store.Letter, error) {
	if err := o.MayNarrow(ref.App); err != nil {
		return nil, err
	}
	l, _, err := o.s.with.Records.Letter(ctx, ref, push.Contents, o.Sees)
	return l, err
}

// resolveLetter returns ref with app and user, for a dead letter that the principal sees, or
// store.ErrNoLetter. For a principal of all apps it does not read Redis.
func (o *Operator) resolveLetter(ctx context.Context, ref push.Ref) (push.Ref, error) {
	if o.SeesAll() {
		return ref, nil
	}
	l, err := o.letter(ctx, ref)
	if err != nil {
		return ref, err
	}
	l.FillOwner(push.Contents)
	return l.Ref(), nil
}
