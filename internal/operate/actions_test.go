package operate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/access"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/trail"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/pause"
)

// overBoth runs the test on Redis, embedded and real, and on a Cluster.
func overBoth(t *testing.T, test func(t *testing.T, client redis.UniversalClient)) {
	t.Helper()
	redistest.Over(t, test)
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		var addresses []string
		for _, node := range redistest.StartCluster(t, 3) {
			addresses = append(addresses, node.Addr())
		}
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses, ContextTimeoutEnabled: true})
		t.Cleanup(func() { _ = client.Close() })
		test(t, client)
	})
}

// errOf is the error of an action that also answers something else.
func errOf[T any](_ T, err error) error { return err }

// Each action leaves one entry: who, what, and how many. What fails leaves none.
func TestEachActionLeavesOneEntry(t *testing.T) {
	overBoth(t, func(t *testing.T, client redis.UniversalClient) {
		s := newService(t, client)
		plant(t, s)
		until := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
		shop := limits.Level{App: "shop"}
		for _, c := range []struct {
			name string
			do   func(ctx context.Context, o *Operator) error
			want *trail.Entry // nil for none
		}{
			{"a limit", func(ctx context.Context, o *Operator) error {
				return errOf(o.SetLimit(ctx, limits.Override{Level: limits.Level{App: "shop", User: "ada", Category: "news"}, Policy: rate}))
			}, &trail.Entry{Action: trail.SetLimit, Level: limits.Level{App: "shop", User: "ada", Category: "news"}, Count: 1}},
			{"a quota's, by its name", func(ctx context.Context, o *Operator) error {
				return errOf(o.SetLimit(ctx, limits.Override{Level: limits.Level{Quota: "both"}, Policy: rate}))
			}, &trail.Entry{Action: trail.SetLimit, Level: limits.Level{Quota: "quota/both"}, Count: 1}},
			{"a mute", func(ctx context.Context, o *Operator) error {
				return errOf(o.SetLimit(ctx, limits.Override{Level: limits.Level{App: "shop", User: "ada", Mute: true}}))
			}, &trail.Entry{Action: trail.Mute, Level: limits.Level{App: "shop", User: "ada"}, Count: 1}},
			{"its end", func(ctx context.Context, o *Operator) error {
				return o.UnsetLimit(ctx, limits.Level{App: "shop", User: "ada", Mute: true})
			}, &trail.Entry{Action: trail.Unmute, Level: limits.Level{App: "shop", User: "ada"}, Count: 1}},
			{"its second end", func(ctx context.Context, o *Operator) error {
				return o.UnsetLimit(ctx, limits.Level{App: "shop", User: "ada", Mute: true})
			}, nil},
			{"a bad limit", func(ctx context.Context, o *Operator) error {
				return errOf(o.SetLimit(ctx, limits.Override{Level: limits.Level{App: "none"}, Policy: rate}))
			}, nil},
			{"an import", func(ctx context.Context, o *Operator) error {
				return o.Import(ctx, []limits.Override{{Level: shop, Policy: rate}, {Level: limits.Level{App: "mail"}, Policy: rate}, {Level: limits.Level{App: "shop", User: "eve"}, Policy: rate}})
			}, &trail.Entry{Action: trail.ImportLimits, Apps: []string{"mail", "shop"}, Count: 3}},
			{"an import for every app", func(ctx context.Context, o *Operator) error {
				return o.Import(ctx, []limits.Override{{Level: shop, Policy: rate}, {Level: limits.Level{User: "eve"}, Policy: rate}})
			}, &trail.Entry{Action: trail.ImportLimits, Count: 2}},
			{"an import's check", func(ctx context.Context, o *Operator) error {
				return o.CheckImport(ctx, []limits.Override{{Level: shop, Policy: rate}})
			}, nil},
			{"none any more", func(ctx context.Context, o *Operator) error {
				return o.UnsetLimit(ctx, limits.Level{App: "shop", Category: "unset"})
			},
				&trail.Entry{Action: trail.UnsetLimit, Level: limits.Level{App: "shop", Category: "unset"}, Count: 1}},
			{"none that was none", func(ctx context.Context, o *Operator) error {
				return o.UnsetLimit(ctx, limits.Level{App: "shop", Category: "unset"})
			}, nil},
			{"an undo", func(ctx context.Context, o *Operator) error {
				return o.UndoLimit(ctx, changeOf(ctx, o, "shop", "undone"))
			},
				&trail.Entry{Action: trail.UndoLimit, Level: limits.Level{App: "shop", Category: "undone"}, Count: 1}},

			{"a pause", func(ctx context.Context, o *Operator) error {
				return o.Pause(ctx, pause.Pause{App: "shop", Platform: push.APNs, Category: "news", Reason: "a reason", Until: until})
			}, &trail.Entry{Action: trail.Pause, Level: limits.Level{App: "shop", Category: "news"}, Platform: push.APNs, Count: 1, Reason: "a reason", Until: until}},
			{"a pause of everything", func(ctx context.Context, o *Operator) error { return o.Pause(ctx, pause.Pause{}) }, &trail.Entry{Action: trail.Pause, Count: 1}},
			{"its end", func(ctx context.Context, o *Operator) error { return errOf(o.Resume(ctx, pause.Pause{})) }, &trail.Entry{Action: trail.Resume, Count: 1}},
			{"its second end", func(ctx context.Context, o *Operator) error { return errOf(o.Resume(ctx, pause.Pause{})) }, nil},

			{"a cancellation", func(ctx context.Context, o *Operator) error { return o.Cancel(ctx, push.Ref{ID: "shop-cancelled"}) },
				&trail.Entry{Action: trail.Cancel, Level: shop, ID: "shop-cancelled", Count: 1}},
			{"a producer's", func(ctx context.Context, _ *Operator) error {
				return s.As(access.Bearer{Name: "backend", Role: config.Producer}, "").Cancel(ctx, push.Ref{ID: "shop-waits"})
			}, nil},
			{"of one that has ended", func(ctx context.Context, o *Operator) error { return o.Cancel(ctx, push.Ref{ID: "shop-cancelled"}) }, nil},
			{"several", func(ctx context.Context, o *Operator) error {
				return cmpOr(o.CancelEach(ctx, []push.Ref{{ID: "shop-each"}, {ID: "none"}, {ID: "mail-each"}})...)
			},
				&trail.Entry{Action: trail.Cancel, Apps: []string{"mail", "shop"}, Count: 2}},
			{"several, of which one is", func(ctx context.Context, o *Operator) error {
				return cmpOr(o.CancelEach(ctx, []push.Ref{{ID: "none"}, {ID: "mail-waits"}})...)
			},
				&trail.Entry{Action: trail.Cancel, Level: limits.Level{App: "mail"}, ID: "mail-waits", Count: 1}},
			{"several, of which none is", func(ctx context.Context, o *Operator) error {
				return cmpOr(o.CancelEach(ctx, []push.Ref{{ID: "none"}, {ID: "mail-waits"}})...)
			}, nil},

			{"a requeue", func(ctx context.Context, o *Operator) error { return o.Requeue(ctx, push.Ref{ID: "shop-requeued"}) },
				&trail.Entry{Action: trail.Requeue, ID: "shop-requeued", Count: 1}}, // whose app is known once a worker has it
			{"requeues", func(ctx context.Context, o *Operator) error {
				return cmpOr(o.RequeueEach(ctx, []push.Ref{{ID: "shop-requeues"}, {ID: "mail-requeues"}})...)
			},
				&trail.Entry{Action: trail.Requeue, Count: 2}},
			{"of whom it is said", func(ctx context.Context, o *Operator) error {
				return cmpOr(o.PurgeEach(ctx, []push.Ref{{ID: "mail-purged", App: "mail"}, {ID: "shop-letter", App: "mail"}})...)
			},
				&trail.Entry{Action: trail.Purge, Level: limits.Level{App: "mail"}, ID: "mail-purged", Count: 1}},
			{"a purge", func(ctx context.Context, o *Operator) error { return o.Purge(ctx, push.Ref{ID: "shop-purged"}) },
				&trail.Entry{Action: trail.Purge, ID: "shop-purged", Count: 1}},
			{"purges by the shop's", func(ctx context.Context, _ *Operator) error {
				return cmpOr(s.As(access.Bearer{Name: "root", Role: config.Operator, Apps: []string{"shop"}}, "").PurgeEach(ctx, []push.Ref{{ID: "shop-purges"}, {ID: "shop-letter"}, {ID: "mail-purges"}})...)
			}, &trail.Entry{Action: trail.Purge, Level: shop, Count: 2}},
		} {
			everything := s.As(root, "192.0.2.1:1")
			before, err := everything.Actions(t.Context(), "", 1000)
			if err != nil {
				t.Fatal(err)
			}
			failed := c.do(t.Context(), everything)
			after, err := everything.Actions(t.Context(), "", 1000)
			if err != nil {
				t.Fatal(err)
			}
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
		s := newService(t, client)
		for i := range 600 { // more than are read at once
			e := trail.Entry{By: "root", Action: trail.Cancel, Count: 2, Level: limits.Level{App: "mail"}}
			if i%200 == 0 {
				e.App = "shop"
			}
			if err := s.trail.Add(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		for _, e := range []trail.Entry{
			{Apps: []string{"mail", "shop"}}, {}, {Level: limits.Level{User: "ada"}}, {Level: limits.Level{Category: "news"}},
			{Level: limits.Level{Quota: "quota/both"}}, {Level: limits.Level{Quota: "apns/mail"}},
		} {
			if err := s.trail.Add(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct {
			apps []string
			want int
		}{{[]string{"shop"}, 3 + 1}, {[]string{"mail"}, 597 + 2}, {[]string{"mail", "shop"}, 600 + 3}, {[]string{"other"}, 0}, {nil, 606}} {
			its := s.As(access.Bearer{Name: "x", Role: config.Viewer, Apps: c.apps}, "")
			all, err := its.Actions(t.Context(), "", 1000)
			if err != nil || len(all) != c.want {
				t.Errorf("%q: %d, %v", c.apps, len(all), err)
			}
			var pages []trail.Entry
			for before := ""; ; before = pages[len(pages)-1].Cursor {
				page, err := its.Actions(t.Context(), before, 250)
				if err != nil {
					t.Fatal(err)
				}
				if pages = append(pages, page...); len(page) < 250 {
					break
				}
			}
			if !reflect.DeepEqual(pages, all) && len(all) > 0 {
				t.Errorf("%q: %d on pages", c.apps, len(pages))
			}
		}
		if _, err := s.As(root, "").Actions(t.Context(), "x", 1); !errors.Is(err, trail.ErrCursor) {
			t.Errorf("no cursor: %v", err)
		}
	})
}

// A trail that cannot be written is told in the log, and fails no action. One whose client
// has gone is written.
func TestActionsThatAreNotWritten(t *testing.T) {
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		s := newService(t, client)
		var log bytes.Buffer
		s.with.Log = slog.New(slog.NewTextHandler(&log, nil))
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		o := s.As(root, "")
		o.did(gone, Pause, trail.Entry{Count: 1})
		if all, err := o.Actions(t.Context(), "", 10); err != nil || len(all) != 1 {
			t.Errorf("%+v, %v", all, err)
		}
		if err := client.Set(t.Context(), "pushpace:actions", "no stream", 0).Err(); err != nil {
			t.Fatal(err)
		}
		if err := o.Pause(t.Context(), pause.Pause{App: "shop"}); err != nil {
			t.Error(err)
		}
		if lines := slices.Collect(strings.Lines(log.String())); len(lines) != 3 || !strings.Contains(lines[2], "an action is missing") || !strings.Contains(lines[2], "action=pause") || !strings.Contains(lines[2], "WRONGTYPE") {
			t.Error(fmt.Sprint(lines))
		}
	})
}
