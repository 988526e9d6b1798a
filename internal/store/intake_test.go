package store_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// intakeOf returns the queue's intake.
func intakeOf(t *testing.T, client redis.UniversalClient, queue string) *store.Intake {
	t.Helper()
	for _, in := range store.Intakes(client) {
		offers, err := in.Peek(t.Context(), nil)
		must(t, err)
		if slices.ContainsFunc(offers, func(o *store.Offer) bool { return o.Queue == queue }) {
			return in
		}
	}
	t.Fatal("no intake has the queue's tasks")
	return nil
}

// A task that was enqueued anew under its ID is not removed.
func TestIntakeRemoveSkipsChangedTask(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		queue, c := push.Bulk.Queue(), asynq.NewClientFromRedisClient(client)
		put := func(id, payload string) {
			t.Helper()
			must(t, second(c.EnqueueContext(t.Context(), asynq.NewTask(store.TaskType, []byte(payload)), asynq.Queue(queue), asynq.TaskID(id))))
		}
		put("same", "1")
		put("another", "1")
		in := intakeOf(t, client, queue)
		peek := func(skip int) (ids []string, offers []*store.Offer) {
			t.Helper()
			offers, err := in.Peek(t.Context(), map[store.IntakePlace]int{{Queue: queue, Name: "pending"}: skip})
			must(t, err)
			for _, o := range offers {
				ids = append(ids, o.ID)
			}
			return ids, offers
		}
		_, first := peek(0)
		must(t, in.Remove(t.Context(), queue, first))
		put("same", "1")
		put("another", "2")
		put("third", "1")
		if ids, _ := peek(0); !slices.Equal(ids, []string{"same", "another", "third"}) {
			t.Errorf("there are %q", ids)
		}
		if ids, _ := peek(2); !slices.Equal(ids, []string{"third"}) {
			t.Errorf("after two there are %q", ids)
		}
		must(t, in.Remove(t.Context(), queue, first)) // by a worker that was late
		if ids, _ := peek(0); !slices.Equal(ids, []string{"another", "third"}) {
			t.Errorf("are left: %q", ids)
		}
		if n := client.Exists(t.Context(), shard.QueueKey(queue, "t:same")).Val(); n != 0 {
			t.Error("its hash is left")
		}
		must(t, client.Set(t.Context(), shard.QueueKey(queue, "scheduled"), "x", 0).Err())
		if offers, err := in.Peek(t.Context(), nil); len(offers) != 2 || err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Errorf("beside a key of another type: %d, %v", len(offers), err)
		}
	})
}
