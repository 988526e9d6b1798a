package store_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
	"github.com/pushpace/pushpace/push"
)

// Each call reads the next 1,000 notifications of a user. Notifications of other users stay.
func TestWithdrawIsBounded(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		const many, each = 2500, 500
		producer := push.NewProducer(client, "", 0).WithShards(1)
		at := storetest.First(t, store.NewRecords(client, "", 0).WithShards(1))
		for first := 0; first < many; first += each {
			batch := make([]*push.Notification, each)
			for i := range batch {
				n := &push.Notification{ID: fmt.Sprint("n", first+i), App: "a", User: "u", Title: "t", Thread: fmt.Sprint("thread-", i%2), Targets: []push.Target{{Platform: push.FCM, Token: "t"}}}
				if i == 0 {
					n.User = "other"
				}
				batch[i] = n
			}
			for _, r := range producer.EnqueueAll(t.Context(), batch) {
				if r.Err != nil {
					t.Fatal(r.Err)
				}
			}
		}
		taken, calls := map[string]bool{}, 0
		for after, more := "", true; more; more = after != "" {
			done, err := at.Withdraw(t.Context(), "a", "u", after, push.Group{Thread: "thread-0"}.Has, store.TakeOptions{State: push.Cancelled, Read: push.Contents})
			if err != nil || len(done.Taken) > 1000 {
				t.Fatalf("%d taken, %v", len(done.Taken), err)
			}
			for _, one := range done.Taken {
				taken[one.ID] = true
			}
			after, calls = done.Next, calls+1
		}
		const want = many/2 - many/each
		if len(taken) != want || calls != 3 {
			t.Errorf("%d taken in %d calls, want %d", len(taken), calls, want)
		}
		if record, err := at.Lookup(t.Context(), "n0"); err != nil || record.State != push.Waiting {
			t.Errorf("another user's: %+v, %v", record, err)
		}
	})
}

// Notifications are accepted and taken while the key of their user's set has the wrong type.
func TestWrongTypeOfWaitsIsIgnored(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		at := storetest.First(t, store.NewRecords(client, "", 0).WithShards(1))
		must(t, client.Set(t.Context(), at.Key("waits:a\nu"), "not ours", 0).Err())
		n := &push.Notification{ID: "n", App: "a", User: "u", Title: "t", Targets: []push.Target{{Platform: push.FCM, Token: "t"}}}
		must(t, second(push.NewProducer(client, "", 0).WithShards(1).Enqueue(t.Context(), n)))
		must(t, second(at.Take(t.Context(), store.Ref{ID: "n"}, store.TakeOptions{State: push.Cancelled, Read: push.Contents})))
	})
}
