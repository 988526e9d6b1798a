package push

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
)

// A Producer writes the same keys as asynq's client, for due and for later jobs. If this fails
// with a new asynq, compare its message's fields and the fields that its enqueueCmd and
// scheduleCmd set with store.Message and enqueueScript.
func TestProducerWritesAsynqFormat(t *testing.T) {
	t.Parallel()
	client, ctx := redistest.Own(t), t.Context()
	for name, headers := range map[string]map[string]string{"bare": nil, "with headers": {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}} {
		for when, notBefore := range map[string]time.Time{"due": {}, "later": time.Now().Add(time.Hour).Truncate(time.Second)} {
			t.Run(name+", "+when, func(t *testing.T) {
				n := Notification{ID: "one", App: "shop", User: "ada", Targets: []Target{{Platform: APNs, Token: "00fcab"}}, Title: "Grüße", NotBefore: notBefore}
				queue, at := n.Priority.Queue(), shard.NewShards(client, "", 1)[0]
				task, sorted := at.QueueKey(queue, "t:"+n.ID), at.QueueKey(queue, "scheduled")
				written := func(enqueue func() error) (hash map[string]string, pending []string, scheduled []any) {
					must(t, client.FlushDB(ctx).Err())
					must(t, enqueue())
					for _, z := range client.ZRangeWithScores(ctx, sorted, 0, -1).Val() {
						scheduled = append(scheduled, z.Score, z.Member)
					}
					return client.HGetAll(ctx, task).Val(), client.LRange(ctx, at.QueueKey(queue, "pending"), 0, -1).Val(), scheduled
				}
				producer := NewProducer(client, "p", time.Hour).WithHeaders(func(context.Context) map[string]string { return headers })
				ours, pending, scheduled := written(func() error {
					_, err := producer.Enqueue(ctx, &n)
					return err
				})
				envelope, err := store.ReadEnvelope(ours["msg"])
				must(t, err)
				if _, err := store.ReadEnvelope(ours["msg"][:len(ours["msg"])-1]); err == nil || !maps.Equal(envelope.Headers, headers) || envelope.Foreign() {
					t.Errorf("read as %+v, and a part of it: %v", envelope, err)
				}
				theirs, theirPending, theirScheduled := written(func() error {
					task := asynq.NewTaskWithHeaders(store.TaskType, []byte(envelope.Payload), headers)
					options := []asynq.Option{asynq.TaskID(n.ID), asynq.Queue(at.Queue(queue)), asynq.MaxRetry(store.MaxRetry)}
					if !notBefore.IsZero() {
						options = append(options, asynq.ProcessAt(notBefore))
					}
					_, err := asynq.NewClientFromRedisClient(client).EnqueueContext(ctx, task, options...)
					return err
				})
				if ours["msg"] != theirs["msg"] {
					t.Errorf("the message is\n%q, asynq's\n%q", ours["msg"], theirs["msg"])
				}
				delete(ours, "pending_since")
				if _, ok := theirs["pending_since"]; ok != notBefore.IsZero() {
					t.Errorf("asynq's has pending_since: %t", ok)
				}
				delete(theirs, "pending_since")
				if !maps.Equal(ours, theirs) || !slices.Equal(pending, theirPending) || !slices.Equal(scheduled, theirScheduled) {
					t.Errorf("%v, pending %v, scheduled %v; asynq writes %v, %v, %v", ours, pending, scheduled, theirs, theirPending, theirScheduled)
				}
			})
		}
	}
}
