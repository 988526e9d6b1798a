package store

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
		message, err := client.HGet(t.Context(), "asynq:{q}:t:id", "msg").Result()
		if err != nil {
			t.Fatal(err)
		}
		envelope, problem := ReadEnvelope(message)
		info, err := inspector.GetTaskInfo("q", "id")
		if err != nil {
			t.Fatal(err)
		}
		if problem != nil || envelope.Retried != retried || info.Retried != retried || envelope.Payload != "payload" || string(info.Payload) != "payload" {
			t.Errorf("%d: read %+v, %v; asynq has %+v", retried, envelope, problem, info)
		}
		if _, err := ReadEnvelope(message[:len(message)-1]); err == nil {
			t.Error("a part of a message is read")
		}
		if err := client.HSet(t.Context(), "asynq:{q}:t:id", "msg", message+string(envelope.FailedOnceMore())).Err(); err != nil {
			t.Fatal(err)
		}
	}
}
