package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/route"
)

func TestProvidersOfAllWorkers(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)
	trouble := func(after time.Duration, text string) route.Trouble {
		return route.Trouble{Reason: "unavailable", Error: text, Since: at.Add(after), Failures: 3}
	}
	snapshot := func(routes ...route.Status) control.Snapshot { return control.Snapshot{Routes: routes} }
	got := sumProviders([]control.Snapshot{
		snapshot(
			route.Status{App: "shop", Platform: push.FCM, InFlight: 2, Queued: 1, State: route.Closed, Trouble: trouble(time.Minute, "later"), Share: new(3)},
			route.Status{App: "shop", Platform: push.APNs, InFlight: 5, State: route.Open, CredentialEnds: at.Add(48 * time.Hour), Latency: route.Latency{P50: 3, P99: 9}, Answers: map[providers.Reason]int64{providers.OK: 4}},
		),
		snapshot(
			route.Status{App: "shop", Platform: push.FCM, InFlight: 1, State: route.Closed, Trouble: trouble(0, "first")},
			route.Status{App: "shop", Platform: push.APNs, State: route.Closed, Pause: "InvalidProviderToken", Until: at.Add(time.Hour), CredentialEnds: at.Add(24 * time.Hour), Latency: route.Latency{P50: 5, P99: 8}, Answers: map[providers.Reason]int64{providers.OK: 1, "BadTopic": 2}},
		),
		snapshot(route.Status{App: "shop", Platform: push.FCM, State: route.Trying, Share: new(0)}), // it probes the provider
	})
	want := []Provider{
		{App: "shop", Platform: push.APNs, InFlight: 5, Workers: 2, Troubled: 1, Pause: "InvalidProviderToken", Until: at.Add(time.Hour), CredentialEnds: at.Add(24 * time.Hour), Latency: route.Latency{P50: 3, P99: 9}, Answers: map[providers.Reason]int64{providers.OK: 5, "BadTopic": 2}},
		{App: "shop", Platform: push.FCM, InFlight: 3, Queued: 1, Workers: 3, Troubled: 2, Shareless: 1, Trouble: trouble(0, "first")},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
}

// The workers' minutes and quotas are summed.
func TestMinutesAndQuotasAreSummed(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)
	minute := func(n int, sent int64, state push.State, ended int64) control.Minute {
		return control.Minute{At: at.Add(time.Duration(n) * time.Minute), Sent: sent, Deferred: 1, Ended: map[push.State]int64{state: ended}}
	}
	workers := []control.Snapshot{
		{
			Minutes: []control.Minute{minute(1, 5, push.Delivered, 4), minute(3, 1, push.Delivered, 1)}, LateP99: time.Second,
			Quotas: []route.QuotaStatus{{Key: "fcm/p", Rate: "10/1s", Used: .25, Waiting: 2, Until: at}, {Key: "category/shop/news", Rate: "1/1s"}},
		},
		{
			Minutes: []control.Minute{minute(0, 2, push.Expired, 1), minute(1, 3, push.Expired, 2)}, LateP99: time.Minute,
			Quotas: []route.QuotaStatus{{Key: "fcm/p", Rate: "10/1s", Used: .5, Waiting: 1, Until: at.Add(time.Second), Error: "away"}},
		},
	}
	both := minute(1, 8, push.Delivered, 4)
	both.Deferred, both.Ended[push.Expired] = 2, 2
	ended := minute(0, 4, push.Expired, 2) // includes a worker that has ended
	ended.Deferred, ended.Waiting = 2, new(int64(7))
	added := minute(0, 2, push.Expired, 1)
	added.Waiting = ended.Waiting
	if got, want := sumMinutes([]control.Minute{added}, workers), []control.Minute{ended, both, minute(3, 1, push.Delivered, 1)}; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if got := maxLateness(workers); got != time.Minute {
		t.Error(got)
	}
	want := []route.QuotaStatus{{Key: "category/shop/news", Rate: "1/1s"}, {Key: "fcm/p", Rate: "10/1s", Used: .75, Waiting: 3, Until: at.Add(time.Second), Error: "away"}}
	if got := sumQuotas(workers); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

// complete reads an overview until it has all of its parts: a slow machine reads some parts too
// late.
func complete(t *testing.T, read func(context.Context) (*Overview, error)) (o *Overview) {
	t.Helper()
	whole := eventually.Within(eventually.Patience, func() bool {
		var err error
		o, err = read(t.Context())
		must(t, err)
		return len(o.Unread) == 0
	})
	if !whole {
		t.Fatalf("%+v are not read", o.Unread)
	}
	return o
}

// The overview has exact counts, and the reasons of a bounded number of dead letters.
func TestOverviewHasExactCounts(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		records := store.NewRecords(client, "", 0)
		waitingFor(t, client, "due", 2*letters, push.Notification{App: "shop", Targets: toFCM})
		waitingFor(t, client, "later", letters, push.Notification{App: "shop", Targets: toFCM, NotBefore: time.Now().Add(time.Hour)})
		for i := range 3 * letters {
			letter := &store.Letter{ID: fmt.Sprint("gone-", i), State: store.Malformed, Reason: "not_json", At: time.Now(), Queue: push.Default.Queue()}
			must(t, storetest.First(t, records).SetAside(t.Context(), letter))
		}
		s := New(Options{Inspect: inspect.New(client, records, nil, limits.New(throttle.Policy{}, nil)), Records: records, Queue: client})
		o := complete(t, s.readOverview)
		sampled := !strings.HasSuffix(t.Name(), "/embedded") // the embedded Redis returns all letters at once
		if o.Waiting != 3*letters || o.Letters.Count != 3*letters || o.Letters.LookedAt < letters || sampled != (o.Letters.LookedAt < 3*letters) || o.Letters.Reasons["not_json"] != o.Letters.LookedAt {
			t.Errorf("%d wait, letters %+v", o.Waiting, o.Letters)
		}
		if len(o.Workers) != 0 || len(o.Waits) != 2 || o.Waits[0].For != inspect.ForWorker || o.Waits[0].Count != 2*letters || o.Waits[1].Count != letters || o.Waits[1].Oldest.IsZero() {
			t.Errorf("%+v", o.Waits)
		}
		if ago := time.Since(o.OldestDue); ago < 0 || ago > time.Minute || len(o.Unread) > 0 {
			t.Errorf("the oldest is due since %s; not read: %+v", o.OldestDue, o.Unread)
		}
		if len(o.Redis) == 1 && (o.Redis[0].Shards != nil || o.Redis[0].Waiting != nil || o.Redis[0].Replicas != nil) {
			t.Errorf("one server has %+v", o.Redis[0])
		}
		if len(o.Redis) == 0 || o.Redis[0].Error != "" || o.Redis[0].AheadBy.Abs() > time.Minute || len(o.LimitsRedis) != 0 {
			t.Errorf("%+v", o.Redis)
		}
	})
}

// A breakage is a hook that makes commands with a name fail, or not return.
type breakage struct {
	name string
	err  error // nil for no answer
}

func (b *breakage) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b *breakage) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (b *breakage) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != b.name {
			return next(ctx, cmd)
		}
		if b.err == nil {
			<-ctx.Done()
		}
		cmd.SetErr(cmp.Or(b.err, ctx.Err()))
		return cmd.Err()
	}
}

// If a part fails or does not answer, the overview names it and has the other parts.
func TestOverviewNamesFailedPart(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]error{"fails": errors.New("ERR broken"), "does not answer": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := redistest.Shared(t).Options()
			options.DB = redistest.Database(t)
			client := redistest.Connect(t, options)
			records := store.NewRecords(client, "", 0)
			waitingFor(t, client, "one", 1, push.Notification{App: "shop", Targets: toFCM})
			must(t, storetest.First(t, records).SetAside(t.Context(), &store.Letter{ID: "gone", State: store.Malformed, Reason: "not_json", At: time.Now(), Queue: push.Default.Queue()}))
			redistest.Hook(client, &breakage{"hscan", broken})
			s := New(Options{Inspect: inspect.New(client, records, nil, limits.New(throttle.Policy{}, nil)), Records: records, Queue: client, Within: eventually.Patience, Log: slog.New(slog.DiscardHandler)})
			var o *Overview
			eventually.Holds(t, "all other parts are read", func() bool { // a slow machine reads some parts too late
				var err error
				o, err = s.As(root, "").Overview(t.Context())
				must(t, err)
				return len(o.Unread) <= 1
			})
			if o.Waiting != 1 || len(o.Waits) != 1 || len(o.Queues) != 3 || len(o.Redis) != 1 || o.Workers == nil || o.Pauses == nil || o.Letters.Reasons == nil {
				t.Errorf("%+v", o)
			}
			if len(o.Unread) != 1 || o.Unread[0].Part != PartLetters || o.NotRead(PartLetters) == "" || o.NotRead(PartWaits) != "" {
				t.Errorf("%+v", o.Unread)
			}
			if its := of("shop").overviewOf(o); len(its.Unread) != 1 || its.Unread[0].Problem == o.Unread[0].Problem {
				t.Errorf("of some apps %+v", its.Unread)
			}
		})
	}
}
