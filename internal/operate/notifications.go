package operate

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
)

// A Result is what became of a notification that was handed over.
type Result struct {
	push.Result
	// Warnings are what is odd about it, although it is taken.
	Warnings []string
}

// Enqueue hands a notification over. What is wrong with it is an error of type
// push.Faults; of another's app it is an *OthersError.
func (o *Operator) Enqueue(ctx context.Context, n *push.Notification) Result {
	if err := o.takes(n, o.configured()); err != nil {
		return Result{Result: push.Result{Err: err}}
	}
	receipt, err := o.s.with.Producer.Enqueue(ctx, n)
	return o.result(n, push.Result{Receipt: receipt, Err: err})
}

// Parsed is a notification, or why it is none, of type push.Faults.
type Parsed struct {
	*push.Notification
	Err error
}

// EnqueueAll hands notifications over, those of one user in order, and returns what became
// of each. One that has an error already, as it could not be read, is not.
func (o *Operator) EnqueueAll(ctx context.Context, all []Parsed) []Result {
	results := make([]Result, len(all))
	valid := make([]*push.Notification, 0, len(all))
	at := make([]int, 0, len(all))
	apps := o.configured()
	for i, one := range all {
		err := one.Err
		if err == nil {
			err = o.takes(one.Notification, apps)
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

// takes returns why the notification is not taken: its bearer may not hand over, it is of
// an app that is not the bearer's, or names what the configuration does not have. The apps
// are those of the configuration that the operator sees.
func (o *Operator) takes(n *push.Notification, apps Apps) error {
	if err := o.may(Enqueue); err != nil {
		return err
	}
	if n.App != "" { // else it is not valid
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

// Status returns where the notification is, or push.ErrUnknownID.
func (o *Operator) Status(ctx context.Context, id string) (*control.Status, error) {
	if err := o.mayKnow(ctx, Status, id); err != nil {
		return nil, err
	}
	if err := o.s.refresh(ctx); err != nil {
		return nil, err
	}
	return o.s.with.Control.Status(ctx, id)
}

// A Notification is all that is known of one: its status, its user's timeline while a
// limit of theirs puts it off, and its dead letter; nil for none.
type Notification struct {
	*control.Status
	Timeline *control.Timeline
	Letter   *ledger.Letter
}

// Notification returns what is known of the notification with that ID, as it was not long
// ago, or push.ErrUnknownID.
func (o *Operator) Notification(ctx context.Context, id string) (*Notification, error) {
	if err := o.mayKnow(ctx, Look, id); err != nil {
		return nil, err
	}
	known, err := o.s.notifications.get(ctx, id)
	if err != nil || known.Letter == nil || o.SeesAll() {
		return known, err
	}
	its := *known // whose letter may be of another app
	if its.Letter, err = o.letter(ctx, id); errors.Is(err, ledger.ErrNoLetter) {
		err = nil
	}
	return &its, err
}

// mayKnow returns nil where it may ask for that of the notification with that ID.
func (o *Operator) mayKnow(ctx context.Context, a *Action, id string) error {
	if err := o.may(a); err != nil {
		return err
	}
	return o.notification(ctx, id)
}

func (s *Service) readNotification(ctx context.Context, id string) (n *Notification, err error) {
	n = new(Notification)
	if n.Status, err = s.with.Control.Status(ctx, id); err != nil {
		return nil, err
	}
	if w := n.Waits; w != nil && w.For == control.ForLimit {
		if n.Timeline, err = s.with.Control.Timeline(ctx, n.App, n.User, []string{n.Category}); err != nil {
			n.Timeline = nil // the rest is told all the same
		}
	}
	if n.Letter, err = s.with.Records.Letter(ctx, id); errors.Is(err, ledger.ErrNoLetter) {
		err = nil
	}
	return n, err
}

// Knows reports whether there is a notification with that ID, or a dead letter.
func (o *Operator) Knows(ctx context.Context, id string) (notification, letter bool, err error) {
	if err := o.may(Look); err != nil {
		return false, false, err
	}
	if push.ValidID(id) {
		if err = o.knows(ctx, id); err == nil || !errors.Is(err, push.ErrUnknownID) {
			return err == nil, false, err
		}
	}
	if _, err = o.letter(ctx, id); err == nil || !errors.Is(err, ledger.ErrNoLetter) {
		return false, err == nil, err
	}
	return false, false, nil
}

// Cancel ends a notification that waits. Its errors are those of control.Control.
func (o *Operator) Cancel(ctx context.Context, id string) error {
	if err := o.cancel(ctx, Cancel, id, func() error { return o.s.refresh(ctx) }); err != nil {
		return err
	}
	// a producer may cancel as many as it likes
	o.s.repeats.Tell(ctx, o.s.with.Log, slog.LevelInfo, Cancel.done, []slog.Attr{slog.String("by", o.who.Name)}, slog.String("remote", o.remote))
	if o.who.Role == config.Operator { // else it is a producer's, and no operator's action
		o.record(ctx, Cancel, o.entryOn(ctx, []string{id}))
	}
	return nil
}

func (o *Operator) cancel(ctx context.Context, a *Action, id string, refresh func() error) error {
	if err := o.mayKnow(ctx, a, id); err != nil {
		return err
	}
	if err := refresh(); err != nil {
		return err
	}
	defer o.s.notifications.forget(id)
	return o.s.with.Control.Cancel(ctx, id)
}

// CancelEach ends notifications that wait, and returns what became of each.
func (o *Operator) CancelEach(ctx context.Context, ids []string) []error {
	refresh := sync.OnceValue(func() error { return o.s.refresh(ctx) })
	return o.each(ctx, CancelEach, ids, func(ctx context.Context, id string) error { return o.cancel(ctx, CancelEach, id, refresh) })
}

// Waiting returns the selected ones of the next few hundred jobs, and the cursor that the
// next call goes on from: see control.Control.Queued.
func (o *Operator) Waiting(ctx context.Context, s control.Selection, cursor string) ([]control.Queued, string, error) {
	if err := o.may(Look); err != nil {
		return nil, "", err
	}
	if s.For != "" && !slices.Contains(control.Causes, s.For) {
		return nil, "", &UnknownError{What: "cause", Problem: "cause is none of " + strings.Join(control.CauseNames(), ", ")}
	}
	s.Apps = o.who.Apps
	list, next, err := o.s.with.Control.Queued(ctx, s, cursor)
	if list == nil {
		list = []control.Queued{}
	}
	return list, next, err
}

// Counts are how many wait and have ended, of all apps together; nil for a bearer of some.
func (o *Operator) Counts(ctx context.Context) (*ledger.Counts, error) {
	if err := o.may(Look); err != nil || !o.SeesAll() {
		return nil, err
	}
	counts, err := o.s.with.Records.Counts(ctx)
	return &counts, err
}

// CountWaiting returns how many notifications wait.
func (s *Service) CountWaiting(ctx context.Context) (int64, error) {
	counts, err := s.with.Records.Counts(ctx)
	return counts.Waiting(), err
}

// Timeline returns what a user was sent and what waits for the user's limits. The app may
// be "" where there is one; without categories it is of all of them.
func (o *Operator) Timeline(ctx context.Context, app, user string, categories []string) (*control.Timeline, error) {
	app, err := o.appOf(ctx, app)
	if err != nil {
		return nil, err
	}
	return o.s.with.Control.Timeline(ctx, app, user, categories)
}

// appOf returns the app whose user a look is at: the one there is for "".
func (o *Operator) appOf(ctx context.Context, app string) (string, error) {
	if err := o.may(Look); err != nil {
		return "", err
	}
	all := o.s.with.Apps
	switch {
	case app != "":
	case len(o.who.Apps) == 1:
		app = o.who.Apps[0]
	case len(all) == 1:
		app = all.Names()[0]
	}
	if its := o.configured().Names(); app == "" && len(its) > 1 {
		return "", &UnknownError{What: "app", Problem: "app is missing", Choices: its}
	}
	if err := o.own(app); err != nil {
		return "", err
	}
	if _, known := all[app]; !known {
		fault := o.configured().Fault(app)
		if fault == "" {
			fault = "is not known: the configuration has none"
		}
		return "", &UnknownError{What: "app", Problem: "app " + fault}
	}
	return app, o.s.refresh(ctx)
}

// refresh has Limits be those in force.
func (s *Service) refresh(ctx context.Context) error {
	if s.with.Follows {
		return nil
	}
	_, err := s.with.Overrides.Refresh(ctx, s.with.Limits)
	return err
}

// CategoriesOf returns the categories that have a policy of their own for a user.
func (o *Operator) CategoriesOf(ctx context.Context, app, user string) ([]string, error) {
	app, err := o.appOf(ctx, app)
	if err != nil {
		return nil, err
	}
	return o.s.with.Limits.Categories(app, user), nil
}

// A User is what is known of a user in an app: the timeline, and those that were sent
// last, by ID. It is not to be changed.
type User struct {
	*control.Timeline
	Sent map[string]ledger.Brief
}

// A userKey says of whom, and of which categories, each on a line; all where there are
// none.
type userKey struct{ app, user, categories string }

// User returns what is known of a user, as it was not long ago.
func (o *Operator) User(ctx context.Context, app, user string, categories []string) (*User, error) {
	app, err := o.appOf(ctx, app)
	if err != nil {
		return nil, err
	}
	return o.s.users.get(ctx, userKey{app, user, strings.Join(categories, "\n")})
}

// A user's page has so many of a scope's admissions, of so many scopes at most.
const (
	MostScopes     = 8
	MostAdmissions = 200
)

func (s *Service) readUser(ctx context.Context, k userKey) (*User, error) {
	var categories []string
	if k.categories != "" {
		categories = strings.Split(k.categories, "\n")
	}
	t, err := s.with.Control.Timeline(ctx, k.app, k.user, categories)
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
	sent, err := s.with.Records.Briefs(ctx, slices.Compact(ids))
	return &User{t, sent}, err
}
