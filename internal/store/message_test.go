package store

import (
	"testing"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
)

// ReadEnvelope reads the message of asynq's client, and asynq's Inspector reads ours.
func TestEnvelope(t *testing.T) {
	t.Parallel()
	client := redistest.Connect(t, &redis.Options{Addr: redistest.Miniredis(t).Addr()})
	tasks, inspector := asynq.NewClientFromRedisClient(client), asynq.NewInspectorFromRedisClient(client)
	task := asynq.NewTaskWithHeaders(TaskType, []byte("payload"), map[string]string{"name": "value"})
	if _, err := tasks.EnqueueContext(t.Context(), task, asynq.TaskID("id"), asynq.Queue("q"), asynq.MaxRetry(MaxRetry)); err != nil {
		t.Fatal(err)
	}
	theirs, err := client.HGet(t.Context(), "asynq:{q}:t:id", "msg").Result()
	if err != nil {
		t.Fatal(err)
	}
	ours := string(Message("id", "q", []byte("payload"), map[string]string{"name": "value"}))
	for _, message := range []string{theirs, ours} {
		envelope, problem := ReadEnvelope(message)
		if problem != nil || envelope.Payload != "payload" || envelope.Headers["name"] != "value" || envelope.Foreign() {
			t.Errorf("read %+v, %v", envelope, problem)
		}
		if _, err := ReadEnvelope(message[:len(message)-1]); err == nil {
			t.Error("a part of a message is read")
		}
		if err := client.HSet(t.Context(), "asynq:{q}:t:id", "msg", message).Err(); err != nil {
			t.Fatal(err)
		}
		if info, err := inspector.GetTaskInfo("q", "id"); err != nil || string(info.Payload) != "payload" {
			t.Errorf("asynq has %+v, %v", info, err)
		}
	}
}
