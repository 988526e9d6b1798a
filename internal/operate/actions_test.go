package operate_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/access"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/operatetest"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/trail"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/pause"
)

// errOf is the error of an action that also answers something else.
func errOf[T any](_ T, err error) error { return err }

// Each action leaves one entry: who, what, and how many. What fails leaves none.
func TestEachActionLeavesOneEntry(t *testing.T) {
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		s, with := newService(t, client)
		operatetest.FillOwn(t, with)
		operatetest.FillOther(t, with)
		log, err := s.As(operatetest.Root, "").LimitsLog(t.Context(), 0, 100)
		must(t, err)
		until := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
		shop := limits.Level{App: "shop"}
		for _, c := range []struct {
			name string
			do   func(ctx context.Context, o *operate.Operator) error
			want *trail.Entry // nil for none
		}{
			{"a limit", func(ctx context.Context, o *operate.Operator) error {
				return errOf(o.SetLimit(ctx, limits.Override{Level: limits.Level{App: "shop", User: "ada", Category: "news"}, Policy: rate}))
			}, &trail.Entry{Action: trail.SetLimit, Level: limits.Level{App: "shop", User: "ada", Category: "news"}, Count: 1}},
			{"a quota's, by its name", func(ctx context.Context, o *operate.Operator) error {
				return errOf(o.SetLimit(ctx, limits.Override{Level: limits.Level{Quota: "both"}, Policy: rate}))
			}, &trail.Entry{Action: trail.SetLimit, Level: limits.Level{Quota: "quota/both"}, Count: 1}},
			{"a mute", func(ctx context.Context, o *operate.Operator) error {
				return errOf(o.SetLimit(ctx, limits.Override{Level: limits.Level{App: "shop", User: "ada", Mute: true}}))
			}, &trail.Entry{Action: trail.Mute, Level: limits.Level{App: "shop", User: "ada"}, Count: 1}},
			{"its end", func(ctx context.Context, o *operate.Operator) error {
				return o.UnsetLimit(ctx, limits.Level{App: "shop", User: "ada", Mute: true})
			}, &trail.Entry{Action: trail.Unmute, Level: limits.Level{App: "shop", User: "ada"}, Count: 1}},
			{"its second end", func(ctx context.Context, o *operate.Operator) error {
				return o.UnsetLimit(ctx, limits.Level{App: "shop", User: "ada", Mute: true})
			}, nil},
			{"a bad limit", func(ctx context.Context, o *operate.Operator) error {
				return errOf(o.SetLimit(ctx, limits.Override{Level: limits.Level{App: "none"}, Policy: rate}))
			}, nil},
			{"an import", func(ctx context.Context, o *operate.Operator) error {
				return o.Import(ctx, []limits.Override{{Level: shop, Policy: rate}, {Level: limits.Level{App: operatetest.Other}, Policy: rate}, {Level: limits.Level{App: "shop", User: "eve"}, Policy: rate}})
			}, &trail.Entry{Action: trail.ImportLimits, Apps: []string{operatetest.Other, operatetest.Own}, Count: 3}},
			{"an import for every app", func(ctx context.Context, o *operate.Operator) error {
				return o.Import(ctx, []limits.Override{{Level: shop, Policy: rate}, {Level: limits.Level{User: "eve"}, Policy: rate}})
			}, &trail.Entry{Action: trail.ImportLimits, Count: 2}},
			{"an import's check", func(ctx context.Context, o *operate.Operator) error {
				return o.CheckImport(ctx, []limits.Override{{Level: shop, Policy: rate}})
			}, nil},
			{"none any more", func(ctx context.Context, o *operate.Operator) error {
				return o.UnsetLimit(ctx, limits.Level{App: "shop", Category: "unset"})
			},
				&trail.Entry{Action: trail.UnsetLimit, Level: limits.Level{App: "shop", Category: "unset"}, Count: 1}},
			{"none that was none", func(ctx context.Context, o *operate.Operator) error {
				return o.UnsetLimit(ctx, limits.Level{App: "shop", Category: "unset"})
			}, nil},
			{"an undo", func(ctx context.Context, o *operate.Operator) error {
				return o.UndoLimit(ctx, changeOf(asking{app: operatetest.Own, log: log}, "undone"))
			},
				&trail.Entry{Action: trail.UndoLimit, Level: limits.Level{App: "shop", Category: "undone"}, Count: 1}},

			{"a pause", func(ctx context.Context, o *operate.Operator) error {
				return errOf(o.Pause(ctx, pause.Pause{App: "shop", Platform: push.APNs, Category: "news", Reason: "a reason", Until: until}))
			}, &trail.Entry{Action: trail.Pause, Level: limits.Level{App: "shop", Category: "news"}, Platform: push.APNs, Count: 1, Reason: "a reason", Until: until}},
			{"a pause of everything", func(ctx context.Context, o *operate.Operator) error { return errOf(o.Pause(ctx, pause.Pause{})) }, &trail.Entry{Action: trail.Pause, Count: 1}},
			{"its end", func(ctx context.Context, o *operate.Operator) error { return errOf(o.Resume(ctx, pause.Pause{})) }, &trail.Entry{Action: trail.Resume, Count: 2}}, // and the trouble of a provider
			{"a pause's end", func(ctx context.Context, o *operate.Operator) error {
				return errOf(o.Resume(ctx, pause.Pause{App: "shop", Category: "resumed"}))
			}, &trail.Entry{Action: trail.Resume, Level: limits.Level{App: "shop", Category: "resumed"}, Count: 1}},
			{"its second end", func(ctx context.Context, o *operate.Operator) error {
				return errOf(o.Resume(ctx, pause.Pause{App: "shop", Category: "resumed"}))
			}, nil},

			{"a cancellation", func(ctx context.Context, o *operate.Operator) error {
				return o.Cancel(ctx, push.Ref{ID: "shop-cancelled"})
			},
				&trail.Entry{Action: trail.Cancel, Level: shop, ID: "shop-cancelled", Count: 1}},
			{"a producer's", func(ctx context.Context, _ *operate.Operator) error {
				return s.As(access.Bearer{Name: "backend", Role: config.Producer}, "").Cancel(ctx, push.Ref{ID: "shop-waits"})
			}, nil},
			{"of one that has ended", func(ctx context.Context, o *operate.Operator) error {
				return o.Cancel(ctx, push.Ref{ID: "shop-cancelled"})
			}, nil},
			{"several", func(ctx context.Context, o *operate.Operator) error {
				return cmpOr(o.CancelEach(ctx, []push.Ref{{ID: "shop-each"}, {ID: "none"}, {ID: "secret-app-each"}})...)
			},
				&trail.Entry{Action: trail.Cancel, Apps: []string{operatetest.Other, operatetest.Own}, Count: 2}},
			{"several, of which one is", func(ctx context.Context, o *operate.Operator) error {
				return cmpOr(o.CancelEach(ctx, []push.Ref{{ID: "none"}, {ID: "secret-app-waits"}})...)
			},
				&trail.Entry{Action: trail.Cancel, Level: limits.Level{App: operatetest.Other}, ID: "secret-app-waits", Count: 1}},
			{"several, of which none is", func(ctx context.Context, o *operate.Operator) error {
				return cmpOr(o.CancelEach(ctx, []push.Ref{{ID: "none"}, {ID: "secret-app-waits"}})...)
			}, nil},

			{"a requeue", func(ctx context.Context, o *operate.Operator) error {
				return o.Requeue(ctx, push.Ref{ID: "shop-requeued"})
			},
				&trail.Entry{Action: trail.Requeue, ID: "shop-requeued", Count: 1}}, // whose app is known once a worker has it
			{"requeues", func(ctx context.Context, o *operate.Operator) error {
				return cmpOr(o.RequeueEach(ctx, []push.Ref{{ID: "shop-requeues"}, {ID: "secret-app-requeues"}})...)
			},
				&trail.Entry{Action: trail.Requeue, Count: 2}},
			{"of whom it is said", func(ctx context.Context, o *operate.Operator) error {
				return cmpOr(o.PurgeEach(ctx, []push.Ref{{ID: "secret-app-purged", App: operatetest.Other}, {ID: "shop-letter", App: operatetest.Other}})...)
			},
				&trail.Entry{Action: trail.Purge, Level: limits.Level{App: operatetest.Other}, ID: "secret-app-purged", Count: 1}},
			{"a purge", func(ctx context.Context, o *operate.Operator) error { return o.Purge(ctx, push.Ref{ID: "shop-purged"}) },
				&trail.Entry{Action: trail.Purge, ID: "shop-purged", Count: 1}},
			{"purges by the shop's", func(ctx context.Context, _ *operate.Operator) error {
				return cmpOr(s.As(access.Bearer{Name: "root", Role: config.Operator, Apps: []string{"shop"}}, "").PurgeEach(ctx, []push.Ref{{ID: "shop-purges"}, {ID: "shop-letter"}, {ID: "secret-app-purges"}})...)
			}, &trail.Entry{Action: trail.Purge, Level: shop, Count: 2}},
		} {
			everything := s.As(operatetest.Root, "192.0.2.1:1")
			before, err := everything.Actions(t.Context(), "", 1000)
			must(t, err)
			failed := c.do(t.Context(), everything)
			after, err := everything.Actions(t.Context(), "", 1000)
			must(t, err)
			if c.want == nil {
				if len(after) != len(before) {
					t.Errorf("%s: %+v", c.name, after[0])
				}
				continue
			}
			if len(after) != len(before)+1 {
				t.Errorf("%s leaves %d entries: %v", c.name, len(after)-len(before), failed)
				continue
			}
			got := after[0]
			if time.Since(got.At).Abs() > time.Minute || got.Cursor == "" {
				t.Errorf("%s: at %v, %q", c.name, got.At, got.Cursor)
			}
			got.At, got.Cursor, c.want.By = time.Time{}, "", "root"
			if !reflect.DeepEqual(got, *c.want) {
				t.Errorf("%s: %+v, want %+v", c.name, got, *c.want)
			}
		}
	})
}

// A bearer of some apps sees what was about these alone, on however many pages.
func TestActionsOf(t *testing.T) {
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		s, _ := newService(t, client)
		kept := trail.New(client, "")
		for i := range 600 { // more than are read at once
			e := trail.Entry{By: "root", Action: trail.Cancel, Count: 2, Level: limits.Level{App: operatetest.Other}}
			if i%200 == 0 {
				e.App = "shop"
			}
			must(t, kept.Add(t.Context(), e))
		}
		for _, e := range []trail.Entry{
			{Apps: []string{operatetest.Other, operatetest.Own}}, {}, {Level: limits.Level{User: "ada"}}, {Level: limits.Level{Category: "news"}},
			{Level: limits.Level{Quota: "quota/both"}}, {Level: limits.Level{Quota: "apns/secret-app"}},
		} {
			must(t, kept.Add(t.Context(), e))
		}
		for _, c := range []struct {
			apps []string
			want int
		}{{[]string{"shop"}, 3 + 1}, {[]string{operatetest.Other}, 597 + 2}, {[]string{operatetest.Other, operatetest.Own}, 600 + 3}, {[]string{"other"}, 0}, {nil, 606}} {
			its := s.As(access.Bearer{Name: "x", Role: config.Viewer, Apps: c.apps}, "")
			all, err := its.Actions(t.Context(), "", 1000)
			if err != nil || len(all) != c.want {
				t.Errorf("%q: %d, %v", c.apps, len(all), err)
			}
			var pages []trail.Entry
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
		if _, err := s.As(operatetest.Root, "").Actions(t.Context(), "x", 1); !errors.Is(err, trail.ErrCursor) {
			t.Errorf("no cursor: %v", err)
		}
	})
}

// If the trail cannot be written the log says so, and the action succeeds.
func TestActionsThatAreNotWritten(t *testing.T) {
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
