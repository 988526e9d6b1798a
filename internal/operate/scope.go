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

// An Action is something that can be asked for.
type Action struct {
	roles []config.Role   // that may
	done  string          // what the log says of it
	as    auditlog.Action // what the audit log calls it
}

// Allows reports whether somebody may ask for it.
func (a *Action) Allows(who Principal) bool { return who.May(a.roles) }

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

	// Look is every look that changes nothing, but at a status.
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
	Mute         = &Action{operators, "somebody is muted", auditlog.Mute}
	Unmute       = &Action{operators, "a mute is removed", auditlog.Unmute}
	ConfirmLoss  = &Action{operators, "a loss of data is confirmed", auditlog.ConfirmLoss}
)

// A RoleError refuses an action that the bearer's role does not allow.
type RoleError struct{ Role config.Role }

// Error implements error.
func (e *RoleError) Error() string {
	return "the token's role, " + string(e.Role) + ", does not allow this"
}

// may returns nil for an action that is allowed, else a *RoleError.
func (o *Operator) may(a *Action) error {
	if a.Allows(o.who) {
		return nil
	}
	return &RoleError{o.who.Role}
}

// A bearer that is for some apps alone sees and changes what is theirs. What is another
// app's is to it as what is not there; what is everybody's it may not change, and sees
// where it concerns an app of its own.

// Sees reports whether what is the app's is for it. What names no app, "", is everybody's,
// and for a bearer of all apps alone.
func (o *Operator) Sees(app string) bool {
	return o.who.Apps == nil || slices.Contains(o.who.Apps, app)
}

// SeesAll reports whether it sees everything, also what is told by no app.
func (o *Operator) SeesAll() bool { return o.who.Apps == nil }

// Only are the apps that it is for alone; nil for all.
func (o *Operator) Only() []string { return o.who.Apps }

// MayNarrow returns nil for an app that a look may be narrowed to, "" for none, else an
// *OthersError.
func (o *Operator) MayNarrow(app string) error {
	if app == "" {
		return nil
	}
	return o.own(app)
}

// KnownApp returns nil for an app that a look may be narrowed to and that the configuration
// has, "" for none: else an *OthersError or an *UnknownError.
func (o *Operator) KnownApp(app string) error {
	if err := o.MayNarrow(app); err != nil || app == "" {
		return err
	}
	return o.knownApp(app)
}

// Apps are those of the configuration that it sees, sorted.
func (o *Operator) Apps() []string { return o.configured().Names() }

// own returns nil for what is of an app of its own, else an *OthersError. What names no
// app is everybody's.
func (o *Operator) own(app string) error {
	if o.Sees(app) {
		return nil
	}
	return &OthersError{o.who.Apps}
}

// all returns nil for a bearer of all apps, else an *OthersError: for what cannot be told
// by app.
func (o *Operator) all() error {
	if o.SeesAll() {
		return nil
	}
	return &OthersError{o.who.Apps}
}

// configured are those of the configuration's apps that it sees, by which an app of its
// own is looked for: one that waits for a restart is not there, and no other is named.
func (o *Operator) configured() Apps {
	all := o.s.with.Apps
	if o.SeesAll() || all == nil {
		return all
	}
	its := Apps{}
	for _, app := range o.who.Apps {
		if platforms, there := all[app]; there {
			its[app] = platforms
		}
	}
	return its
}

// knownApp returns nil for an app of the configuration that it sees, else an
// *UnknownError. Where no apps are given any is known.
func (o *Operator) knownApp(app string) error {
	if fault := o.configured().Fault(app); fault != "" {
		return &UnknownError{What: "app", Problem: "app " + fault}
	}
	return nil
}

// seesLevel reports whether it may list what is set at the level: its app is one of its
// own, or an app of its own uses the quota.
func (o *Operator) seesLevel(l limits.Level, all Quotas) bool {
	return o.ofLevel(l, all, slices.ContainsFunc[[]string, string])
}

// ownsLevel returns nil where it may set the level: its app is one of its own, or all
// apps that use the quota are. Else it returns an *OthersError.
func (o *Operator) ownsLevel(l limits.Level, all Quotas) error {
	every := func(apps []string, sees func(string) bool) bool {
		return len(apps) > 0 && !slices.ContainsFunc(apps, func(app string) bool { return !sees(app) })
	}
	if o.ofLevel(l, all, every) {
		return nil
	}
	return &OthersError{o.who.Apps}
}

func (o *Operator) ofLevel(l limits.Level, all Quotas, enough func(apps []string, sees func(string) bool) bool) bool {
	if o.SeesAll() || l.Quota == "" {
		return o.Sees(l.App)
	}
	q, err := all.Find(l.Quota)
	return err == nil && enough(q.Apps, o.Sees)
}

// quotasOf returns what it sees of these: those that an app of its own uses, with the apps
// of its own.
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

// pausesOf returns those of these that touch an app of its own: those of such an app, and
// those of every app.
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

// notification returns the name of a notification that the operator sees. Its error is
// push.ErrUnknownID for any other and for an impossible ID, an *UnknownError for an ID with a
// space at its ends, and an *OthersError for another's app. For a bearer of all apps it does
// not read Redis.
func (o *Operator) notification(ctx context.Context, ref push.Ref) (push.Ref, error) {
	if problem := names.Ends(ref.ID); problem != "" {
		return ref, &UnknownError{What: "id", Problem: "ID " + problem}
	}
	if !push.ValidID(ref.ID) {
		return ref, push.ErrUnknownID
	}
	if err := o.MayNarrow(ref.App); err != nil || o.SeesAll() {
		return ref, err
	}
	return o.s.with.Records.Resolve(ctx, ref, o.Sees)
}

// letter returns the dead letter, and store.ErrNoLetter for one that it does not see. One
// whose job cannot be read, and was not accepted, is no app's.
func (o *Operator) letter(ctx context.Context, ref push.Ref) (*store.Letter, error) {
	if err := o.MayNarrow(ref.App); err != nil {
		return nil, err
	}
	l, _, err := o.s.with.Records.Letter(ctx, ref, push.Contents, o.Sees)
	return l, err
}

// knowsLetter returns the name of a dead letter that it sees, and store.ErrNoLetter for
// any other. Of a bearer of all apps it does not look.
func (o *Operator) knowsLetter(ctx context.Context, ref push.Ref) (push.Ref, error) {
	if o.SeesAll() {
		return ref, nil
	}
	l, err := o.letter(ctx, ref)
	if err != nil {
		return ref, err
	}
	l.Tell(push.Contents)
	return l.Ref(), nil
}
