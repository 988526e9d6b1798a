package push

import (
	"testing"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
)

// What is read of asynq's message, and put behind it, is what asynq makes of it.
func TestEnvelope(t *testing.T) {
	t.Parallel()
	client := redistest.Connect(t, &redis.Options{Addr: redistest.Miniredis(t).Addr()})
	tasks, inspector := asynq.NewClientFromRedisClient(client), asynq.NewInspectorFromRedisClient(client)
	if _, err := tasks.EnqueueContext(t.Context(), asynq.NewTask(TaskType, []byte("payload")), asynq.TaskID("id"), asynq.Queue("q")); err != nil {
		t.Fatal(err)
	}
	for retried := range 3 {
		message, err := client.HGet(t.Context(), "asynq:{q}:t:id", "msg").Bytes()
		if err != nil {
			t.Fatal(err)
		}
		envelope, ok := ReadEnvelope(message)
		info, err := inspector.GetTaskInfo("q", "id")
		if err != nil {
			t.Fatal(err)
		}
		if !ok || envelope.Retried != retried || info.Retried != retried || string(envelope.Payload) != "payload" || string(info.Payload) != "payload" {
			t.Errorf("%d: read %+v, %t; asynq has %+v", retried, envelope, ok, info)
		}
		if _, ok := ReadEnvelope(message[:len(message)-1]); ok {
			t.Error("a part of a message is read")
		}
		if err := client.HSet(t.Context(), "asynq:{q}:t:id", "msg", append(message, envelope.FailedOnceMore()...)).Err(); err != nil {
			t.Fatal(err)
		}
	}
}
