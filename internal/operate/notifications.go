package operate

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate/auditlog"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
)

// A Result is the result of enqueuing a notification.
type Result struct {
	push.Result
	// Warnings are about an accepted notification.
	Warnings []string
}

// Enqueue enqueues a notification. Its error is push.Faults for an invalid notification, and an
// *OthersError if the principal may not use the app.
func (o *Operator) Enqueue(ctx context.Context, n *push.Notification) Result {
	if err := o.checkNew(n, o.configured()); err != nil {
		return Result{Result: push.Result{Err: err}}
	}
	receipt, err := o.s.with.Producer.Enqueue(ctx, n)
	return o.result(n, push.Result{Receipt: receipt, Err: err})
}

// Parsed is a parsed notification, or its error, of type push.Faults.
type Parsed struct {
	*push.Notification
	Err error
}

// EnqueueAll enqueues notifications, each user's in order, and returns the results by index. For a
// notification with a parse error it returns this error.
func (o *Operator) EnqueueAll(ctx context.Context, all []Parsed) []Result {
	results := make([]Result, len(all))
	valid := make([]*push.Notification, 0, len(all))
	at := make([]int, 0, len(all))
	apps := o.configured()
	for i, one := range all {
		err := one.Err
		if err == nil {
			err = o.checkNew(one.Notification, apps)
		}
		if err != nil {
			results[i].Err = err
			continue
		}
		valid, at = append(valid, one.Notification), append(at, i)
	}
	if len(valid) > 0 {
		for j, r := range o.s.with.Producer.EnqueueAll(ctx, valid) {
			results[at[j]] = o.result(valid[j], r)
		}
	}
	return results
}

// checkNew returns an error if the principal's role does not allow to enqueue, if the principal may
// not use the app, or if a name in the notification is not configured. apps are the configured apps
// that the principal sees.
func (o *Operator) checkNew(n *push.Notification, apps Apps) error {
	if err := o.may(Enqueue); err != nil {
		return err
	}
	if n.App != "" { // Validate refuses a notification without an app
		if err := o.own(n.App); err != nil {
			return err
		}
	}
	return Refusal(n, apps, o.s.with.Limits)
}

func (o *Operator) result(n *push.Notification, r push.Result) Result {
	if r.Err != nil {
		return Result{Result: r}
	}
	return Result{r, Warnings(n, o.s.with.Limits)}
}

// Status returns where the notification is, or push.ErrUnknownID or a *push.AmbiguousError.
func (o *Operator) Status(ctx context.Context, ref push.Ref) (*inspect.Status, error) {
	ref, err := o.authorize(ctx, Status, ref)
	if err != nil {
		return nil, err
	}
	if err := o.s.refresh(ctx); err != nil {
		return nil, err
	}
	return o.s.with.Inspect.Status(ctx, ref)
}

// A Notification is all that is known about a notification: its status, its user's timeline while a
// limit defers it, and its dead letter, nil without one.
type Notification struct {
	*inspect.Status
	Timeline *inspect.Timeline
	Letter   *store.Letter
}

// Notification returns the notification, at most Fresh old, or push.ErrUnknownID or a
// *push.AmbiguousError.
func (o *Operator) Notification(ctx context.Context, ref push.Ref) (*Notification, error) {
	ref, err := o.authorize(ctx, Look, ref)
	if err != nil {
		return nil, err
	}
	known, err := o.s.notifications.get(ctx, ref)
	if err != nil || known.Letter == nil || o.SeesAll() {
		return known, err
	}
	its := *known // a copy: the dead letter may belong to an app that the principal does not see
	if its.Letter, err = o.letter(ctx, ref); errors.Is(err, store.ErrNoLetter) {
		err = nil
	}
	return &its, err
}

// authorize returns ref with app and user if the principal may take the action on the notification.
func (o *Operator) authorize(ctx context.Context, a *Action, ref push.Ref) (push.Ref, error) {
	if err := o.may(a); err != nil {
		return ref, err
	}
	return o.resolve(ctx, ref)
}

func (s *Service) readNotification(ctx context.Context, ref push.Ref) (n *Notification, err error) {
	n = new(Notification)
	if n.Status, err = s.with.Inspect.Status(ctx, ref); err != nil {
		return nil, err
	}
	if w := n.Waits; w != nil && w.For.HasSlot() {
		if n.Timeline, err = s.with.Inspect.Timeline(ctx, n.App, n.User, []string{n.Category}); err != nil {
			n.Timeline = nil // the rest is returned all the same
		}
	}
	n.Letter, err = s.letterOf(ctx, ref.ID, n.Status)
	return n, err
}

// letterOf returns a notification's dead letter, nil without one. A letter of an unknown user
// belongs to the notification in the same shard.
func (s *Service) letterOf(ctx context.Context, id string, of *inspect.Status) (*store.Letter, error) {
	at, err := s.with.Records.Of(ctx, of.App, of.User)
	if err != nil {
		return nil, err
	}
	l, err := at.Letter(ctx, id)
	if errors.Is(err, store.ErrNoLetter) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	its := *l
	if its.FillOwner(push.Contents); its.App != "" && of.App != "" && (its.App != of.App || its.User != of.User) {
		return nil, nil
	}
	return l, nil
}

// Knows reports whether a notification, or else a dead letter, has this ID. Several users may have
// the ID.
func (o *Operator) Knows(ctx context.Context, id string) (notification, letter bool, err error) {
	if err := o.may(Look); err != nil {
		return false, false, err
	}
	if push.ValidID(id) {
		_, err = o.s.with.Records.Resolve(ctx, push.Ref{ID: id}, o.Sees)
		if known := err == nil || errors.Is(err, push.ErrAmbiguous); known {
			return true, false, nil
		}
		if !errors.Is(err, push.ErrUnknownID) {
			return false, false, err
		}
	}
	switch _, err = o.letter(ctx, push.Ref{ID: id}); {
	case err == nil, errors.Is(err, push.ErrAmbiguous):
		return false, true, nil
	case errors.Is(err, store.ErrNoLetter):
		return false, false, nil
	}
	return false, false, err
}

// Cancel ends a waiting notification and the notifications that it carries, if these are not more
// than others. Its errors are control.Control.Cancel's.
func (o *Operator) Cancel(ctx context.Context, ref push.Ref, others int) error {
	ref, err := o.authorize(ctx, Cancel, ref)
	if err != nil {
		return err
	}
	if err := o.s.refresh(ctx); err != nil {
		return err
	}
	defer o.s.forgetID(ref.ID)
	carried, err := o.s.with.Control.Cancel(ctx, ref, others)
	if err != nil {
		return err
	}
	// producers cancel often: count repeats instead of logging each
	o.s.repeats.Write(ctx, o.s.with.Log, slog.LevelInfo, Cancel.done, []slog.Attr{slog.String("by", o.principal.Name)}, slog.String("remote", o.remote))
	if o.principal.Role == config.Operator { // the audit log has operators' actions only
		entry := o.entryOn(ctx, []push.Ref{ref})
		entry.Count += carried
		o.record(ctx, Cancel, entry)
	}
	return nil
}

// Withdraw ends a user's waiting notifications of the group, 1,000 at a time: see
// control.Control.Withdraw. The group must be valid. Its error may be store.ErrCursor.
func (o *Operator) Withdraw(ctx context.Context, app, user string, g push.Group, cursor string) (w control.Withdrawn, err error) {
	if err := o.may(Withdraw); err != nil {
		return w, err
	}
	if err := o.own(app); err != nil {
		return w, err
	}
	if err := o.knownApp(app); err != nil {
		return w, err
	}
	if cursor != "" && !push.ValidID(cursor) { // a cursor is the last ID that was read
		return w, store.ErrCursor
	}
	if err := o.s.refresh(ctx); err != nil {
		return w, err
	}
	defer o.s.notifications.forget(func(ref push.Ref) bool { return ref.User == "" || ref.App == app && ref.User == user })
	if w, err = o.s.with.Control.Withdraw(ctx, app, user, g, cursor); w.Ended == 0 {
		return w, err
	}
	// producers withdraw often: count repeats instead of logging each
	o.s.repeats.Write(ctx, o.s.with.Log, slog.LevelInfo, Withdraw.done, []slog.Attr{slog.String("by", o.principal.Name)}, slog.String("remote", o.remote))
	if o.principal.Role == config.Operator { // as in Cancel
		o.record(ctx, Withdraw, auditlog.Entry{Level: limits.Level{App: app, User: user}, Group: nameOf(g), Count: w.Ended + w.Carried})
	}
	return w, err
}

// nameOf returns the name of the group's field, as in the API, and its value.
func nameOf(g push.Group) string {
	switch {
	case g.Thread != "":
		return "thread " + g.Thread
	case g.CollapseKey != "":
		return "collapse_key " + g.CollapseKey
	case g.Category != "":
		return "category " + g.Category
	}
	return "digest_key " + g.DigestKey
}

// CancelEach ends waiting notifications, including the members of their digests, and returns the
// errors.
func (o *Operator) CancelEach(ctx context.Context, refs []push.Ref) []error {
	return o.eachBatch(ctx, CancelEach, refs, o.cancelAll)
}

func (o *Operator) cancelAll(ctx context.Context, refs []push.Ref) (errs []error, others int) {
	whole := make([]push.Ref, len(refs))
	errs = inParallel(len(refs), func(i int) (err error) {
		whole[i], err = o.authorize(ctx, CancelEach, refs[i])
		return err
	})
	unread := o.s.refresh(ctx)
	var known []push.Ref
	var places []int
	for i, err := range errs {
		switch {
		case err != nil:
		case unread != nil:
			errs[i] = unread
		default:
			known, places = append(known, whole[i]), append(places, i)
		}
	}
	carried, ends := o.s.with.Control.CancelAll(ctx, known)
	for k, err := range ends {
		errs[places[k]] = err
		others += carried[k]
		o.s.forgetID(known[k].ID)
	}
	return errs, others
}

// forgetID makes the next caller read notifications with this ID again.
func (s *Service) forgetID(id string) {
	s.notifications.forget(func(ref push.Ref) bool { return ref.ID == id })
}

// Waiting returns the selected jobs among the next few hundred: see inspect.Inspector.Queued.
func (o *Operator) Waiting(ctx context.Context, s inspect.Selection, cursor string) (*inspect.Page, error) {
	if err := o.may(Look); err != nil {
		return nil, err
	}
	if s.For != "" && !slices.Contains(inspect.Causes, s.For) {
		return nil, &UnknownError{Kind: "cause", Problem: "cause is none of " + strings.Join(inspect.CauseNames(), ", ")}
	}
	if s.Mutable { // by the exemptions in force
		if err := o.s.refresh(ctx); err != nil {
			return nil, err
		}
	}
	s.Apps = o.principal.Apps
	return o.s.with.Inspect.Queued(ctx, s, cursor)
}

// Counts returns the numbers of waiting and ended notifications, of all apps together, in the
// shards that answer; nil for a principal of some apps.
func (o *Operator) Counts(ctx context.Context) (*store.Counts, error) {
	if err := o.may(Look); err != nil || !o.SeesAll() {
		return nil, err
	}
	counts, err := o.s.with.Records.Counts(ctx)
	_, err = store.Unreachable(err)
	return &counts, err
}

// CountStored returns the number of waiting notifications and dead letters in all shards
// that answer.
func (s *Service) CountStored(ctx context.Context) (int64, error) {
	counts, err := s.with.Records.Counts(ctx)
	_, err = store.Unreachable(err)
	return counts.Waiting() + counts.Letters, err
}

// Timeline returns a user's sent notifications, and the notifications that wait for the user's
// limits. The app may be "" if there is only one app; without categories it covers all categories.
func (o *Operator) Timeline(ctx context.Context, app, user string, categories []string) (*inspect.Timeline, error) {
	app, err := o.appOf(ctx, app)
	if err != nil {
		return nil, err
	}
	return o.s.with.Inspect.Timeline(ctx, app, user, categories)
}

// appOf returns the app of a query about a user; "" selects the only app.
func (o *Operator) appOf(ctx context.Context, app string) (string, error) {
	if err := o.may(Look); err != nil {
		return "", err
	}
	all := o.s.with.Apps
	switch {
	case app != "":
	case len(o.principal.Apps) == 1:
		app = o.principal.Apps[0]
	case len(all) == 1:
		app = all.Names()[0]
	}
	if its := o.configured().Names(); app == "" && len(its) > 1 {
		return "", &UnknownError{Kind: "app", Problem: "app is missing", Choices: its}
	}
	if err := o.own(app); err != nil {
		return "", err
	}
	if _, known := all[app]; !known {
		fault := o.configured().Fault(app)
		if fault == "" {
			fault = "is not known: the configuration has none"
		}
		return "", &UnknownError{Kind: "app", Problem: "app " + fault}
	}
	return app, o.s.refresh(ctx)
}

// refresh brings Limits up to date.
func (s *Service) refresh(ctx context.Context) error {
	if s.with.Follows {
		return nil
	}
	_, err := s.with.Overrides.Refresh(ctx, s.with.Limits)
	return err
}

// CategoriesOf returns the categories with their own policy for a user.
func (o *Operator) CategoriesOf(ctx context.Context, app, user string) ([]string, error) {
	app, err := o.appOf(ctx, app)
	if err != nil {
		return nil, err
	}
	return o.s.with.Limits.Categories(app, user), nil
}

// A User is a user's timeline in an app, and the notifications sent last, by ID. Callers share it
// and must not change it.
type User struct {
	*inspect.Timeline
	Sent map[string]store.Brief
}

// A userKey identifies a User. categories has one category a line; "" for all.
type userKey struct{ app, user, categories string }

// User returns a user's timeline and last sent notifications, at most Fresh old.
func (o *Operator) User(ctx context.Context, app, user string, categories []string) (*User, error) {
	app, err := o.appOf(ctx, app)
	if err != nil {
		return nil, err
	}
	return o.s.users.get(ctx, userKey{app, user, strings.Join(categories, "\n")})
}

// A user's page shows at most MostAdmissions admissions of each of at most MostScopes scopes.
const (
	MostScopes     = 8
	MostAdmissions = 200
)

func (s *Service) readUser(ctx context.Context, k userKey) (*User, error) {
	var categories []string
	if k.categories != "" {
		categories = strings.Split(k.categories, "\n")
	}
	t, err := s.with.Inspect.Timeline(ctx, k.app, k.user, categories)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, scope := range t.Scopes[:min(len(t.Scopes), MostScopes)] {
		for _, a := range scope.Admissions[max(0, len(scope.Admissions)-MostAdmissions):] {
			ids = append(ids, a.ID)
		}
	}
	slices.Sort(ids)
	at, err := s.with.Records.Of(ctx, k.app, k.user)
	if err != nil {
		return nil, err
	}
	sent, err := at.Briefs(ctx, slices.Compact(ids))
	// an admission may outlive its record, and another user's notification have the ID
	maps.DeleteFunc(sent, func(_ string, b store.Brief) bool { return b.App != k.app || b.User != k.user })
	return &User{t, sent}, err
}
