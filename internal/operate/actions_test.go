package operate_test

import (
	"bytes"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/auditlog"
	"github.com/pushpace/pushpace/internal/operate/operatetest"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/pause"
)

// errOf drops an action's result and returns its error.
func errOf[T any](_ T, err error) error { return err }

// Each action that succeeds adds one entry with the operator, the item and the count. A failed
// action adds none.
func TestEachActionAddsOneEntry(t *testing.T) {
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		s, with := newService(t, client)
		operatetest.FillOwn(t, with)
		operatetest.FillOther(t, with)
		log, err := s.As(operatetest.Root, "").LimitsLog(t.Context(), 0, 100)
		must(t, err)
		until := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
		shop := limits.Level{App: "shop"}
		root, ctx, kept := s.As(operatetest.Root, "192.0.2.1:1"), t.Context(), 0
		// leaves checks the entry of the last action, nil for no entry; failed is the action's error.
		leaves := func(name string, failed error, want *auditlog.Entry) {
			t.Helper()
			all, err := root.Actions(ctx, "", 1000)
			must(t, err)
			more := len(all) - kept
			kept = len(all)
			if (want != nil) != (more == 1) || more > 1 {
				t.Errorf("%s leaves %d entries: %v", name, more, failed)
				return
			}
			if want == nil {
				return
			}
			got := all[0]
			if time.Since(got.At).Abs() > time.Minute || got.Cursor == "" {
				t.Errorf("%s: at %v, %q", name, got.At, got.Cursor)
			}
			got.At, got.Cursor, want.By = time.Time{}, "", "root"
			if !reflect.DeepEqual(got, *want) {
				t.Errorf("%s: %+v, want %+v", name, got, *want)
			}
		}
		all, err := root.Actions(ctx, "", 1000)
		must(t, err)
		kept = len(all)
		ada, shopUnset, shopResumed := limits.Level{App: "shop", User: "ada"}, limits.Level{App: "shop", Category: "unset"}, limits.Level{App: "shop", Category: "resumed"}
		news, mute := limits.Level{App: "shop", User: "ada", Category: "news"}, limits.Level{App: "shop", User: "ada", Mute: true}
		resumed := pause.Pause{App: "shop", Category: "resumed"}
		one := func(a auditlog.Action, l limits.Level) *auditlog.Entry {
			return &auditlog.Entry{Action: a, Level: l, Count: 1}
		}
		set := func(l limits.Level, p throttle.Policy) error {
			return errOf(root.SetLimit(ctx, limits.Override{Level: l, Policy: p}))
		}
		imports := func(all ...limits.Level) error {
			overrides := make([]limits.Override, len(all))
			for i, l := range all {
				overrides[i] = limits.Override{Level: l, Policy: rate}
			}
			return root.Import(ctx, overrides)
		}
		refs := func(ids ...string) (all []push.Ref) {
			for _, id := range ids {
				all = append(all, push.Ref{ID: id})
			}
			return all
		}

		leaves("a limit", set(news, rate), &auditlog.Entry{Action: auditlog.SetLimit, Level: news, Count: 1, Limit: rate.String()})
		leaves("a quota's, by its name", set(limits.Level{Quota: "both"}, rate), &auditlog.Entry{Action: auditlog.SetLimit, Level: limits.Level{Quota: "quota/both"}, Count: 1, Limit: rate.String()})
		leaves("a mute", set(mute, throttle.Policy{}), one(auditlog.Mute, ada))
		leaves("its end", root.UnsetLimit(ctx, mute), one(auditlog.Unmute, ada))
		leaves("its second end", root.UnsetLimit(ctx, mute), nil)
		leaves("a bad limit", set(limits.Level{App: "none"}, rate), nil)
		leaves("an import", imports(shop, limits.Level{App: operatetest.Other}, limits.Level{App: "shop", User: "eve"}), &auditlog.Entry{Action: auditlog.ImportLimits, Apps: []string{operatetest.Other, operatetest.Own}, Count: 3})
		leaves("an import for every app", imports(shop, limits.Level{User: "eve"}), &auditlog.Entry{Action: auditlog.ImportLimits, Count: 2})
		leaves("an import's check", root.CheckImport(ctx, []limits.Override{{Level: shop, Policy: rate}}), nil)
		leaves("none any more", root.UnsetLimit(ctx, shopUnset), one(auditlog.UnsetLimit, shopUnset))
		leaves("none that was none", root.UnsetLimit(ctx, shopUnset), nil)
		leaves("an undo", root.UndoLimit(ctx, changeOf(asking{app: operatetest.Own, log: log}, "undone")), one(auditlog.UndoLimit, limits.Level{App: "shop", Category: "undone"}))

		leaves("a pause", errOf(root.Pause(ctx, pause.Pause{App: "shop", Platform: push.APNs, Category: "news", Reason: "a reason", Until: until})),
			&auditlog.Entry{Action: auditlog.Pause, Level: limits.Level{App: "shop", Category: "news"}, Platform: push.APNs, Count: 1, Reason: "a reason", Until: until})
		leaves("a pause of everything", errOf(root.Pause(ctx, pause.Pause{})), &auditlog.Entry{Action: auditlog.Pause, Count: 1})
		leaves("its end", errOf(root.Resume(ctx, pause.Pause{})), &auditlog.Entry{Action: auditlog.Resume, Count: 2}) // also a provider's trouble
		leaves("a pause's end", errOf(root.Resume(ctx, resumed)), one(auditlog.Resume, shopResumed))
		leaves("its second end", errOf(root.Resume(ctx, resumed)), nil)

		leaves("a cancellation", root.Cancel(ctx, push.Ref{ID: "shop-cancelled"}, 0), &auditlog.Entry{Action: auditlog.Cancel, Level: shop, ID: "shop-cancelled", Count: 1})
		leaves("a producer's", s.As(operate.Principal{Name: "backend", Role: config.Producer}, "").Cancel(ctx, push.Ref{ID: "shop-waits"}, 0), nil)
		leaves("of one that has ended", root.Cancel(ctx, push.Ref{ID: "shop-cancelled"}, 0), nil)
		leaves("several", cmpOr(root.CancelEach(ctx, refs("shop-each", "none", "secret-app-each"))...), &auditlog.Entry{Action: auditlog.Cancel, Apps: []string{operatetest.Other, operatetest.Own}, Count: 2})
		leaves("several, of which one is", cmpOr(root.CancelEach(ctx, refs("none", "secret-app-waits"))...),
			&auditlog.Entry{Action: auditlog.Cancel, Level: limits.Level{App: operatetest.Other}, ID: "secret-app-waits", Count: 1})
		leaves("several, of which none is", cmpOr(root.CancelEach(ctx, refs("none", "secret-app-waits"))...), nil)
		leaves("a withdrawal", errOf(root.Withdraw(ctx, operatetest.Own, "shop-user", push.Group{Category: "shop"}, "")),
			&auditlog.Entry{Action: auditlog.Cancel, Level: limits.Level{App: operatetest.Own, User: "shop-user"}, Group: "category shop", Count: 1})
		leaves("of nothing more", errOf(root.Withdraw(ctx, operatetest.Own, "shop-user", push.Group{Category: "shop"}, "")), nil)

		leaves("a requeue", root.Requeue(ctx, push.Ref{ID: "shop-requeued"}), &auditlog.Entry{Action: auditlog.Requeue, ID: "shop-requeued", Count: 1}) // its app is unknown until a worker claims it
		leaves("requeues", cmpOr(root.RequeueEach(ctx, refs("shop-requeues", "secret-app-requeues"))...), &auditlog.Entry{Action: auditlog.Requeue, Count: 2})
		leaves("of whom it is said", cmpOr(root.PurgeEach(ctx, []push.Ref{{ID: "secret-app-purged", App: operatetest.Other}, {ID: "shop-letter", App: operatetest.Other}})...),
			&auditlog.Entry{Action: auditlog.Purge, Level: limits.Level{App: operatetest.Other}, ID: "secret-app-purged", Count: 1})
		leaves("a purge", root.Purge(ctx, push.Ref{ID: "shop-purged"}), &auditlog.Entry{Action: auditlog.Purge, ID: "shop-purged", Count: 1})
		own := s.As(operate.Principal{Name: "root", Role: config.Operator, Apps: []string{"shop"}}, "")
		leaves("purges by the shop's", cmpOr(own.PurgeEach(ctx, refs("shop-purges", "shop-letter", "secret-app-purges"))...), &auditlog.Entry{Action: auditlog.Purge, Level: shop, Count: 2})
	})
}

// A principal of some apps sees only the entries about its apps, even beyond the first page.
func TestActionsHideOtherApps(t *testing.T) {
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		s, _ := newService(t, client)
		kept := auditlog.New(client, "")
		for i := range 600 { // more than one page
			e := auditlog.Entry{By: "root", Action: auditlog.Cancel, Count: 2, Level: limits.Level{App: operatetest.Other}}
			if i%200 == 0 {
				e.App = "shop"
			}
			must(t, kept.Add(t.Context(), e))
		}
		for _, e := range []auditlog.Entry{
			{Apps: []string{operatetest.Other, operatetest.Own}}, {}, {Level: limits.Level{User: "ada"}}, {Level: limits.Level{Category: "news"}},
			{Level: limits.Level{Quota: "quota/both"}}, {Level: limits.Level{Quota: "apns/secret-app"}},
		} {
			must(t, kept.Add(t.Context(), e))
		}
		for _, c := range []struct {
			apps []string
			want int
		}{{[]string{"shop"}, 3 + 1}, {[]string{operatetest.Other}, 597 + 2}, {[]string{operatetest.Other, operatetest.Own}, 600 + 3}, {[]string{"other"}, 0}, {nil, 606}} {
			its := s.As(operate.Principal{Name: "x", Role: config.Viewer, Apps: c.apps}, "")
			all, err := its.Actions(t.Context(), "", 1000)
			if err != nil || len(all) != c.want {
				t.Errorf("%q: %d, %v", c.apps, len(all), err)
			}
			var pages []auditlog.Entry
			for before := ""; ; before = pages[len(pages)-1].Cursor {
				page, err := its.Actions(t.Context(), before, 250)
				must(t, err)
				if pages = append(pages, page...); len(page) < 250 {
					break
				}
			}
			if !reflect.DeepEqual(pages, all) && len(all) > 0 {
				t.Errorf("%q: %d on pages", c.apps, len(pages))
			}
		}
		if _, err := s.As(operatetest.Root, "").Actions(t.Context(), "x", 1); !errors.Is(err, auditlog.ErrCursor) {
			t.Errorf("no cursor: %v", err)
		}
	})
}

// If the audit log cannot be written the log says so, and the action succeeds.
func TestUnwrittenEntryIsLogged(t *testing.T) {
	client := redistest.Own(t)
	with := operatetest.Options(t, client, limits.New(throttle.Policy{}, nil))
	var log bytes.Buffer
	with.Log = slog.New(slog.NewTextHandler(&log, nil))
	must(t, client.Set(t.Context(), "pushpace:actions", "no stream", 0).Err())
	if _, err := operate.New(with).As(operatetest.Root, "").Pause(t.Context(), pause.Pause{App: "shop"}); err != nil {
		t.Error(err)
	}
	if got := log.String(); !strings.Contains(got, "an action is missing") || !strings.Contains(got, "action=pause") || !strings.Contains(got, "WRONGTYPE") {
		t.Error(got)
	}
}
