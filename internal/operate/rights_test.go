package operate

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/access"
	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/quotas"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/trail"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

// newService returns a service over Redis, with the apps shop and mail. The quota both is
// theirs, each has one of its own besides.
func newService(t *testing.T, client redis.UniversalClient) *Service {
	t.Helper()
	records := ledger.NewRecords(client, "", 0)
	policies := limits.New(throttle.Policy{}, nil)
	limiter, err := throttle.New(client, throttle.Options{Timeout: redistest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = limiter.Close() })
	patient, stop := pipeline.Share(client, pipeline.Options{Timeout: redistest.Patience})
	t.Cleanup(stop)
	both := App{Platforms: []push.Platform{push.APNs, push.FCM}}
	quota := config.Quota{Rate: throttle.Rate{Count: 600, Period: time.Minute}}
	s := New(Options{
		Producer: push.NewProducer(client, "", 0), Records: records, Control: control.New(client, records, limiter, policies),
		Limits: policies, Overrides: limits.NewOverrides(client, "", 0), Meter: meter.NewRedis(patient, ""),
		Preview: &Previewer{Limits: policies, Lines: limiter, Apps: []string{"mail", "shop"}},
		Quotas: func() (quotas.Quotas, error) {
			return quotas.Quotas{
				{Key: "apns/shop", Apps: []string{"shop"}, Quota: quota}, {Key: "apns/mail", Apps: []string{"mail"}, Quota: quota},
				{Key: "quota/both", Name: "both", Apps: []string{"mail", "shop"}, Quota: quota},
			}, nil
		},
		Apps: Apps{"shop": both, "mail": both}, Queue: client, Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(s.Close)
	return s
}

// A try is one of the operator's methods, asked about what is the app's.
type try struct {
	action *Action
	ask    func(ctx context.Context, o *Operator, app string) error
	// hidden is how what is another app's is kept from a bearer: by this error, or where
	// it is nil by an answer without it; every is for what cannot be told by app.
	hidden error
	every  bool
}

var (
	rate   = throttle.Policy{Rates: []throttle.Rate{{Count: 5, Period: time.Minute}}}
	others = new(OthersError)
)

// errTold is for an answer that has what is the other app's.
var errTold = errors.New("it tells of the other app")

// tries are all methods that look or act. IDs are those of plant.
var tries = map[string]try{
	"Enqueue": {Enqueue, func(ctx context.Context, o *Operator, app string) error {
		return o.Enqueue(ctx, &push.Notification{App: app, User: "u", Title: "t", Targets: []push.Target{{Platform: push.FCM, Token: "t"}}}).Err
	}, others, false},
	"EnqueueAll": {Enqueue, func(ctx context.Context, o *Operator, app string) error {
		return o.EnqueueAll(ctx, []Parsed{{Notification: &push.Notification{App: app, User: "u", Title: "t", Targets: []push.Target{{Platform: push.FCM, Token: "t"}}}}})[0].Err
	}, others, false},
	"Status": {Status, func(ctx context.Context, o *Operator, app string) error {
		_, err := o.Status(ctx, push.Ref{ID: app + "-waits"})
		return err
	}, push.ErrUnknownID, false},
	"Notification": {Look, func(ctx context.Context, o *Operator, app string) error {
		_, err := o.Notification(ctx, push.Ref{ID: app + "-waits"})
		return err
	}, push.ErrUnknownID, false},
	"Knows": {Look, func(ctx context.Context, o *Operator, app string) error {
		notification, _, err := o.Knows(ctx, app+"-waits")
		_, letter, err2 := o.Knows(ctx, app+"-letter")
		return cmpOr(err, err2, told(notification && app == "mail"), told(letter && app == "mail"))
	}, nil, false},
	"Cancel": {Cancel, func(ctx context.Context, o *Operator, app string) error {
		return o.Cancel(ctx, push.Ref{ID: app + "-cancelled"})
	}, push.ErrUnknownID, false},
	"CancelWithOthers": {Cancel, func(ctx context.Context, o *Operator, app string) error {
		return o.CancelWithOthers(ctx, push.Ref{ID: app + "-with-others"})
	}, push.ErrUnknownID, false},
	"CancelEach": {CancelEach, func(ctx context.Context, o *Operator, app string) error {
		return o.CancelEach(ctx, []push.Ref{{ID: app + "-each"}})[0]
	}, push.ErrUnknownID, false},
	"Waiting": {Look, func(ctx context.Context, o *Operator, app string) error {
		list, err := o.Waiting(ctx, control.Selection{}, "")
		return cmpOr(err, told(app == "mail" && list != nil && slices.ContainsFunc(list.Waiting, func(q control.Queued) bool { return q.App == app })))
	}, nil, false},
	"Counts": {Look, func(ctx context.Context, o *Operator, _ string) error {
		counts, err := o.Counts(ctx)
		return cmpOr(err, told(counts != nil && !o.SeesAll()))
	}, nil, false},
	"Timeline": {Look, func(ctx context.Context, o *Operator, app string) error {
		_, err := o.Timeline(ctx, app, "ada", nil)
		return err
	}, others, false},
	"User": {Look, func(ctx context.Context, o *Operator, app string) error {
		_, err := o.User(ctx, app, "ada", nil)
		return err
	}, others, false},
	"CategoriesOf": {Look, func(ctx context.Context, o *Operator, app string) error {
		_, err := o.CategoriesOf(ctx, app, "ada")
		return err
	}, others, false},

	"Limits": {Look, func(ctx context.Context, o *Operator, app string) error {
		all, err := o.Limits(ctx, "", 100)
		return cmpOr(err, told(err == nil && app == "mail" && slices.ContainsFunc(all.Overrides, func(r limits.Override) bool { return r.App == app })))
	}, nil, false},
	"InForce": {Look, func(ctx context.Context, o *Operator, app string) error {
		_, err := o.InForce(ctx, limits.Level{App: app})
		return err
	}, others, false},
	"Override": {Look, func(ctx context.Context, o *Operator, app string) error {
		_, err := o.Override(ctx, limits.Level{App: app})
		return err
	}, others, false},
	"Below": {Look, func(_ context.Context, o *Operator, app string) error {
		_, err := o.Below(limits.Level{App: app})
		return err
	}, others, false},
	"SetLimit": {SetLimit, func(ctx context.Context, o *Operator, app string) error {
		_, err := o.SetLimit(ctx, limits.Override{Level: limits.Level{App: app, User: "ada"}, Policy: rate})
		return err
	}, others, false},
	"Import": {ImportLimits, func(ctx context.Context, o *Operator, app string) error {
		return o.Import(ctx, []limits.Override{{Level: limits.Level{App: app, User: "ada"}, Policy: rate}})
	}, others, false},
	"CheckImport": {ImportLimits, func(ctx context.Context, o *Operator, app string) error {
		return o.CheckImport(ctx, []limits.Override{{Level: limits.Level{App: app, User: "ada"}, Policy: rate}})
	}, others, false},
	"UnsetLimit": {UnsetLimit, func(ctx context.Context, o *Operator, app string) error {
		return o.UnsetLimit(ctx, limits.Level{App: app, Category: "unset"})
	}, others, false},
	"Preview": {Look, func(ctx context.Context, o *Operator, app string) error {
		_, err := o.Preview(ctx, limits.Level{App: app}, &limits.Override{Level: limits.Level{App: app}, Policy: rate})
		return err
	}, others, false},
	"LimitsLog": {Look, func(ctx context.Context, o *Operator, app string) error {
		all, err := o.LimitsLog(ctx, 0, 100)
		return cmpOr(err, told(app == "mail" && slices.ContainsFunc(all, func(c limits.Change) bool { return c.App == app })))
	}, nil, false},
	"UndoOf": {UndoLimit, func(ctx context.Context, o *Operator, app string) error {
		_, err := o.UndoOf(ctx, changeOf(ctx, o, app, "looked at"))
		return err
	}, ErrNoChange, false},
	"UndoLimit": {UndoLimit, func(ctx context.Context, o *Operator, app string) error {
		return o.UndoLimit(ctx, changeOf(ctx, o, app, "undone"))
	}, ErrNoChange, false},
	"Quotas": {Look, func(ctx context.Context, o *Operator, app string) error {
		all, err := o.Quotas(ctx)
		return cmpOr(err, told(app == "mail" && slices.ContainsFunc(all, func(q quotas.Status) bool { return slices.Contains(q.Apps, app) })))
	}, nil, false},
	"RecentQuotas": {Look, func(ctx context.Context, o *Operator, app string) error {
		all, _, err := o.RecentQuotas(ctx)
		return cmpOr(err, told(app == "mail" && slices.ContainsFunc(all, func(q RecentQuota) bool { return slices.Contains(q.Apps, app) })))
	}, nil, false},

	"Letters": {Look, func(ctx context.Context, o *Operator, app string) error {
		all, err := o.Letters(ctx, "", 100)
		return cmpOr(err, told(app == "mail" && all != nil && slices.ContainsFunc(all.Letters, func(l ledger.Letter) bool { return l.App == app })))
	}, nil, false},
	"Letter": {Look, func(ctx context.Context, o *Operator, app string) error {
		_, err := o.Letter(ctx, push.Ref{ID: app + "-letter"})
		return err
	}, ledger.ErrNoLetter, false},
	"Requeue": {Requeue, func(ctx context.Context, o *Operator, app string) error {
		return o.Requeue(ctx, push.Ref{ID: app + "-requeued"})
	}, ledger.ErrNoLetter, false},
	"RequeueEach": {RequeueEach, func(ctx context.Context, o *Operator, app string) error {
		return o.RequeueEach(ctx, []push.Ref{{ID: app + "-requeues"}})[0]
	}, ledger.ErrNoLetter, false},
	"Purge": {Purge, func(ctx context.Context, o *Operator, app string) error {
		return o.Purge(ctx, push.Ref{ID: app + "-purged"})
	}, ledger.ErrNoLetter, false},
	"PurgeEach": {PurgeEach, func(ctx context.Context, o *Operator, app string) error {
		return o.PurgeEach(ctx, []push.Ref{{ID: app + "-purges"}})[0]
	}, ledger.ErrNoLetter, false},

	"Pauses": {Look, func(ctx context.Context, o *Operator, app string) error {
		all, err := o.Pauses(ctx)
		return cmpOr(err, told(app == "mail" && slices.ContainsFunc(all, func(p pause.Pause) bool { return p.App == app })))
	}, nil, false},
	"PausesNow": {Look, func(ctx context.Context, o *Operator, app string) error {
		all, err := o.PausesNow(ctx)
		return cmpOr(err, told(app == "mail" && slices.ContainsFunc(all, func(p pause.Pause) bool { return p.App == app })))
	}, nil, false},
	"Ending": {Resume, func(ctx context.Context, o *Operator, app string) error {
		_, err := o.Ending(ctx, pause.Pause{App: app, Category: "ending"})
		return err
	}, others, false},
	"Pause": {Pause, func(ctx context.Context, o *Operator, app string) error {
		return o.Pause(ctx, pause.Pause{App: app, Category: "x"})
	}, others, false},
	"MayPause": {Pause, func(_ context.Context, o *Operator, app string) error { return o.MayPause(pause.Pause{App: app}) }, others, false},
	"Resume": {Resume, func(ctx context.Context, o *Operator, app string) error {
		_, err := o.Resume(ctx, pause.Pause{App: app, Category: "resumed"})
		return err
	}, others, false},

	"Overview": {Look, func(ctx context.Context, o *Operator, app string) error {
		all, err := o.Overview(ctx)
		return cmpOr(err, told(err == nil && app == "mail" && slices.ContainsFunc(all.Pauses, func(p pause.Pause) bool { return p.App == app })))
	}, nil, false},
	"Actions": {Look, func(ctx context.Context, o *Operator, app string) error {
		all, err := o.Actions(ctx, "", 1000)
		return cmpOr(err, told(app == "mail" && slices.ContainsFunc(all, func(e trail.Entry) bool { return e.App == app || slices.Contains(e.Apps, app) })))
	}, nil, false},
	"Workers":    {Look, func(ctx context.Context, o *Operator, _ string) error { _, err := o.Workers(ctx); return err }, nil, false},
	"Throughput": {Look, func(ctx context.Context, o *Operator, _ string) error { _, err := o.Throughput(ctx, Hour); return err }, others, true},
	"Audit":      {Look, func(ctx context.Context, o *Operator, _ string) error { _, err := o.Audit(ctx); return err }, others, true},
}

// decides are the methods that only say who somebody is, or what is configured.
var decides = []string{"Sees", "SeesAll", "Only", "MayNarrow", "KnownApp", "Apps", "Categories", "Now", "OwnsPause"}

func told(is bool) error {
	if is {
		return errTold
	}
	return nil
}

func cmpOr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// changeOf is the version of the newest change of the limits of an app's category.
func changeOf(ctx context.Context, o *Operator, app, category string) int64 {
	log, _ := o.s.As(root, "").LimitsLog(ctx, 0, 100)
	i := slices.IndexFunc(log, func(c limits.Change) bool { return c.App == app && c.Category == category })
	if i < 0 {
		return 0
	}
	return log[i].Version
}

// root may do everything.
var root = access.Bearer{Name: "root", Role: config.Operator}

// plant leaves what the tries are about, of both apps.
func plant(t *testing.T, s *Service) {
	t.Helper()
	ctx := t.Context()
	everything := s.As(root, "")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, app := range []string{"shop", "mail"} {
		n := &push.Notification{App: app, User: "ada", Title: "t", NotBefore: time.Now().Add(time.Hour), Targets: []push.Target{{Platform: push.FCM, Token: "t"}}}
		for _, what := range []string{"waits", "cancelled", "with-others", "each"} {
			one := *n
			one.ID = app + "-" + what
			must(everything.Enqueue(ctx, &one).Err)
		}
		for _, what := range []string{"letter", "requeued", "requeues", "purged", "purges"} {
			one := *n
			one.ID, one.NotBefore = app+"-"+what, time.Time{}
			job, err := push.Encode(&push.Job{Notification: &one, AcceptedAt: time.Now()})
			must(err)
			at, err := s.with.Records.Of(ctx, app, one.User)
			must(err)
			must(at.SetAside(ctx, &ledger.Letter{ID: one.ID, State: ledger.Malformed, Reason: "test", At: time.Now(), Queue: push.Default.Queue(), Job: job}))
		}
		for _, category := range []string{"unset", "undone", "looked at"} {
			_, err := everything.SetLimit(ctx, limits.Override{Level: limits.Level{App: app, Category: category}, Policy: rate})
			must(err)
		}
		must(everything.Pause(ctx, pause.Pause{App: app, Category: "resumed"}))
		must(everything.Pause(ctx, pause.Pause{App: app, Category: "ending"}))
	}
}

// A surface gets no part of the service that it could reach past the rules with.
func TestServiceShowsNoPart(t *testing.T) {
	t.Parallel()
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Service]()) {
		if field.IsExported() && len(field.Index) == 1 || field.Anonymous {
			t.Errorf("Service.%s is a surface's to use", field.Name)
		}
	}
}

// Each look and action asks who it is: for the role, and for whose it is.
func TestEachActionAsksWhoItIs(t *testing.T) {
	for i := range reflect.TypeFor[*Operator]().NumMethod() {
		name := reflect.TypeFor[*Operator]().Method(i).Name
		if _, tried := tries[name]; !tried && !slices.Contains(decides, name) {
			t.Errorf("%s is not tried", name)
		}
	}
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		s := newService(t, client)
		plant(t, s)
		roles := map[*Action][]config.Role{Enqueue: {config.Producer, config.Operator}, Cancel: {config.Producer, config.Operator}, Status: {config.Producer, config.Viewer, config.Operator}, Look: {config.Viewer, config.Operator}}
		for name, c := range tries {
			may := roles[c.action]
			if may == nil {
				may = []config.Role{config.Operator}
			}
			for _, role := range []config.Role{"", config.Producer, config.Viewer, config.Operator} {
				if slices.Contains(may, role) {
					continue
				}
				var refused *RoleError
				if err := c.ask(t.Context(), s.As(access.Bearer{Name: "x", Role: role}, ""), "shop"); !errors.As(err, &refused) {
					t.Errorf("%s, as %q: %v", name, role, err)
				}
			}
			its := s.As(access.Bearer{Name: "ann", Role: config.Operator, Apps: []string{"shop"}}, "")
			err := c.ask(t.Context(), its, "mail")
			switch {
			case c.hidden == others && !errors.As(err, new(*OthersError)), c.hidden != others && !errors.Is(err, c.hidden):
				t.Errorf("%s, of another's app: %v", name, err)
			}
			if err := c.ask(t.Context(), its, "shop"); err != nil && !c.every {
				t.Errorf("%s, of its own app: %v", name, err)
			}
			if err := c.ask(t.Context(), s.As(root, ""), "mail"); err != nil && !errors.Is(err, errTold) {
				t.Errorf("%s, of any app: %v", name, err)
			}
		}
	})
}
