package push_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
)

// Of a batch each is on its own: what is in the way of one, or has become of it
// before, is nothing to the others, and each is queued and counted once.
func TestEachOfABatchIsOnItsOwn(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	producer := push.NewProducer(client, "", 0)
	const n = 130
	const known, conflict, blocked, invalid, twice = 3, 50, 64, 99, 120
	batch := make([]*push.Notification, n)
	for i := range batch {
		batch[i] = order(fmt.Sprintf("batch-%d", i), nil)
	}
	batch[invalid].User = ""
	batch[twice] = batch[twice-1]
	for _, i := range []int{known, conflict} {
		before := *batch[i]
		if i == conflict {
			before.Title = "Delivered"
		}
		if _, err := producer.Enqueue(t.Context(), &before); err != nil {
			t.Fatal(err)
		}
	}
	for shard := range 16 {
		if err := client.Set(t.Context(), fmt.Sprintf("pushpace:{records-%d}:id:%s", shard, batch[blocked].ID), "of another type", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range producer.EnqueueAll(t.Context(), batch) {
		switch {
		case i == conflict && errors.Is(r.Err, push.ErrConflict):
		case i == invalid && errors.As(r.Err, new(push.Faults)):
		case i == blocked && redis.HasErrorPrefix(r.Err, "WRONGTYPE"):
		case i == conflict || i == invalid || i == blocked:
			t.Errorf("%d: %+v", i, r)
		case r.Err != nil || r.Known != (i == known || i == twice):
			t.Errorf("%d: %+v", i, r)
		}
	}
	const accepted = n - 3 // but for the invalid one, the blocked one, and the one that is there twice
	counts, err := push.NewRecords(client, "", 0).Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	queued := client.LLen(t.Context(), push.QueueKey(push.Default.Queue(), "pending")).Val()
	if counts.Accepted != accepted || queued != accepted {
		t.Errorf("%d accepted and %d queued, of %d", counts.Accepted, queued, accepted)
	}
}
