package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
	"github.com/pushpace/pushpace/push"
)

// PutOff returns the job and updates the record once, in one step. If the counts are broken, the
// job stays claimed.
func TestPutOffUpdatesRecord(t *testing.T) {
	redistest.OverAll(t, func(t *testing.T, client redis.UniversalClient, prefix string) {
		records := store.NewRecords(client, prefix, 0)
		n := &push.Notification{ID: "tried", App: "a", User: "u", Targets: []push.Target{{Platform: push.FCM, Token: "t"}}, Title: "t"}
		must(t, second(push.NewProducer(client, prefix, 0).Enqueue(t.Context(), n)))
		at, queue := storetest.At(t, records, n.ID), n.Priority.Queue()
		until := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		back := &store.PutOff{
			Return:   store.Return{Why: store.Retried, After: time.Hour, Failed: true},
			Deferral: &store.Deferral{Until: until, Scope: "general", Rule: "1/1h"},
			Attempt:  &store.Attempt{Number: 1, Excused: 1, Outcomes: []store.TargetOutcome{{Kind: "retry"}}, Error: "away"},
		}
		job := storetest.ClaimJob(t, client, at, queue, n.ID)
		must(t, client.HSet(t.Context(), at.Key("counts"), "booked", "x").Err())
		if err := at.PutOff(t.Context(), job, back); !errors.Is(err, store.ErrNotRecorded) || client.LLen(t.Context(), at.QueueKey(queue, "active")).Val() != 1 {
			t.Errorf("with unreadable counts: %v", err)
		}
		client.HSet(t.Context(), at.Key("counts"), "booked", 0)
		for _, want := range []error{nil, store.ErrNotClaimed} {
			if err := at.PutOff(t.Context(), job, back); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		record, err := at.Lookup(t.Context(), n.ID)
		counts, failed := records.Counts(t.Context())
		if err != nil || failed != nil || record.Attempts != 1 || record.Excused != 1 || record.Error != "away" || record.Outcomes[0].Kind != "retry" ||
			!record.Until.Equal(until) || record.Rule != "1/1h" || record.Deferrals != 1 || counts.Booked != 1 || counts.Deferred != 1 {
			t.Errorf("record %+v, counts %+v; %v, %v", record, counts, err, failed)
		}

		// after the notification has ended, the job is due at once
		must(t, second(at.Settle(t.Context(), n.ID, &store.End{State: push.Delivered, Attempts: 2})))
		job = storetest.ClaimJob(t, client, at, queue, n.ID)
		client.ZRem(t.Context(), at.QueueKey(queue, "retry"), n.ID)
		back.Attempt.Number, back.Failed = 3, false
		if err := at.PutOff(t.Context(), job, back); err != nil {
			t.Error(err)
		}
		record, err = at.Lookup(t.Context(), n.ID)
		left := time.Until(time.UnixMicro(int64(client.ZScore(t.Context(), at.QueueKey(queue, "due"), n.ID).Val())))
		failures, _ := client.HGet(t.Context(), at.QueueKey(queue, "t:"+n.ID), "failed").Int()
		if err != nil || record.State != push.Delivered || record.Attempts != 2 || left > time.Minute || failures != 2 {
			t.Errorf("%+v, %v; due in %s after %d failures", record, err, left, failures)
		}
	})
}

// A pull takes as many of a user's jobs as the bound allows and parks the rest. It takes a job that
// has returned, because it may have a slot, and the jobs of other users.
func TestPullParksJobsOfFullUserQueue(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	at := storetest.First(t, store.NewRecords(client, "", 0).WithShards(1))
	producer := push.NewProducer(client, "", 0).WithShards(1)
	queue := push.Default.Queue()
	for _, of := range []string{`returned a "d\a`, `first a "d\a`, `second a "d\a`, "other bob"} {
		id, user, _ := strings.Cut(of, " ")
		n := &push.Notification{ID: id, App: "shop", User: user, Targets: []push.Target{{Platform: push.FCM, Token: "t"}}, Title: "t"}
		must(t, second(producer.Enqueue(t.Context(), n)))
	}
	must(t, at.PutOff(t.Context(), storetest.ClaimJob(t, client, at, queue, "returned"), &store.PutOff{Return: store.Return{Why: store.Deferred}}))
	visit := int64(1)
	pull := func(most int, bounds ...store.Bound) []string {
		t.Helper()
		return pulled(t, at, store.Pull{Queue: queue, Most: most, Term: "test", Visit: visit, Bounds: bounds})
	}
	ada := push.UserMark("shop", `a "d\a`, "")
	if ids := pull(10, store.Bound{Name: ada}); !slices.Equal(ids, []string{"returned", "other"}) {
		t.Errorf("taken are %q", ids)
	}
	if place, err := at.Find(t.Context(), queue, "second"); err != nil || place.Last.Why != store.Crowded {
		t.Errorf("%+v, %v", place, err)
	}
	if ids := pull(10, store.Bound{Name: ada, Room: 1}); !slices.Equal(ids, []string{"first"}) {
		t.Errorf("with room for one %q are taken", ids)
	}
	// a parked job without room on its route is parked by the route, until the route has room
	visit = 2
	if ids := pull(1, store.Bound{Name: "shop/fcm"}); len(ids) > 0 {
		t.Errorf("without room %q are taken", ids)
	}
	if ids := pull(10); !slices.Equal(ids, []string{"second"}) {
		t.Errorf("without a bound %q are taken", ids)
	}
}

// pulled returns the IDs of the jobs that a pull takes.
func pulled(t *testing.T, at *store.Shard, p store.Pull) (ids []string) {
	t.Helper()
	got, err := at.Pull(t.Context(), p)
	must(t, err)
	for i := range got.Jobs {
		ids = append(ids, got.Jobs[i].ID)
	}
	return ids
}

// A job that PutOff parks returns when one of its names has room. When its time is up, it returns
// even without room.
func TestParkedJobReturnsWithRoomOrInTime(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		at := storetest.First(t, store.NewRecords(client, "", 0).WithShards(1))
		queue, producer := push.Default.Queue(), push.NewProducer(client, "", 0).WithShards(1)
		pause, quota := store.PauseName(`["shop","","news"]`), store.QuotaName("throughput/shop/news")
		visit := int64(1)
		pull := func(bounds ...store.Bound) []string {
			t.Helper()
			visit++
			return pulled(t, at, store.Pull{Queue: queue, Most: 10, Term: "T", Visit: visit, Bounds: bounds})
		}
		for id, park := range map[string][]string{"paused": {pause}, "either": {quota, pause}} {
			n := &push.Notification{ID: id, App: "shop", User: "u", Category: "news", Targets: []push.Target{{Platform: push.FCM, Token: "t"}}, Title: "t"}
			must(t, second(producer.Enqueue(t.Context(), n)))
			job := storetest.ClaimJob(t, client, at, queue, id)
			must(t, at.PutOff(t.Context(), job, &store.PutOff{Return: store.Return{Why: store.ProviderPaused, After: time.Hour}, Park: store.ParkName(park)}))
		}
		closed := store.Bound{Name: pause, Room: -1}
		for _, c := range []struct {
			bounds []store.Bound
			want   []string
		}{
			{nil, nil}, // the caller does not know the names yet
			{[]store.Bound{closed, {Name: quota}}, nil},
			{[]store.Bound{closed, {Name: quota, Room: 5}}, []string{"either"}},
			{[]store.Bound{closed}, nil},
		} {
			if ids := pull(c.bounds...); !slices.Equal(ids, c.want) {
				t.Errorf("%+v: %q are taken", c.bounds, ids)
			}
		}
		if place, err := at.Find(t.Context(), queue, "paused"); err != nil || place.Last.Why != store.ProviderPaused {
			t.Errorf("%+v, %v", place, err)
		}
		must(t, client.ZAdd(t.Context(), at.QueueKey(queue, "due"), redis.Z{Score: 1, Member: "paused"}).Err())
		if ids := pull(closed); !slices.Equal(ids, []string{"paused"}) {
			t.Errorf("when its time is up %q are taken", ids)
		}
	})
}

// A job that a closed route delays counts as held when it is pulled: the limiter does not reject
// it.
func TestJobOfClosedRouteCountsAsHeld(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	at := storetest.First(t, store.NewRecords(client, "", 0).WithShards(1))
	queue := push.Default.Queue()
	for room, want := range map[int]store.WaitReason{-1: store.ProviderPaused, 0: ""} {
		app := fmt.Sprint("app", room)
		n := &push.Notification{ID: app, App: app, User: "u", Targets: []push.Target{{Platform: push.FCM, Token: "t"}}, Title: "t"}
		must(t, second(push.NewProducer(client, "", 0).WithShards(1).Enqueue(t.Context(), n)))
		for visit, bounds := range [][]store.Bound{{{Name: app + "/fcm", Room: room}}, nil} {
			got, err := at.Pull(t.Context(), store.Pull{Queue: queue, Most: 10, Term: app, Visit: int64(visit), Bounds: bounds})
			if err != nil || len(got.Jobs) != visit {
				t.Fatalf("%+v, %v", got.Jobs, err)
			}
			if visit == 1 && (got.Jobs[0].Last.Why != want || !got.Jobs[0].Parked) {
				t.Errorf("room %d: %+v", room, got.Jobs[0])
			}
		}
	}
}

// OldestDue skips a job if all of its names are held.
func TestOldestDueSkipsHeldJobs(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		at := storetest.First(t, store.NewRecords(client, "", 0).WithShards(1))
		queue, pause, quota := push.Default.Queue(), store.PauseName(`["shop","","news"]`), store.QuotaName("throughput/shop/news")
		n := &push.Notification{ID: "parked", App: "shop", User: "u", Category: "news", Targets: []push.Target{{Platform: push.FCM, Token: "t"}}, Title: "t"}
		must(t, second(push.NewProducer(client, "", 0).WithShards(1).Enqueue(t.Context(), n)))
		job := storetest.ClaimJob(t, client, at, queue, n.ID)
		must(t, at.PutOff(t.Context(), job, &store.PutOff{Return: store.Return{Why: store.ProviderPaused, After: time.Hour}, Park: store.ParkName([]string{quota, pause})}))
		for _, c := range []struct {
			held map[string]bool
			due  bool
		}{{nil, true}, {map[string]bool{pause: true}, true}, {map[string]bool{pause: true, quota: true}, false}} {
			if oldest, err := at.OldestDue(t.Context(), time.Now().Add(time.Minute), c.held); err != nil || oldest.IsZero() == c.due {
				t.Errorf("held %v: since %s, %v", c.held, oldest, err)
			}
		}
	})
}
