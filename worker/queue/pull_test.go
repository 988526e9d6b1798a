package queue

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// A panic fails only the attempt of its job.
func TestPanicFailsOneAttempt(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	c := configOf(t, redistest.One(t))
	c.Log = slog.New(slog.NewTextHandler(&log, nil))
	s := NewServer(c)
	s.handler = panics{}
	worse := &claimedJob{Job: Job{Job: store.Job{ID: "worse"}}}
	worse.work = s.workOf(worse)
	bad := &claimedJob{work: func(context.Context) Result {
		var none []string
		return Malformed{Why: none[3]}
	}}
	for said, job := range map[string]*claimedJob{"a panic: *queue.panics": worse, "a panic: runtime error: index out of range [3] with length 0": bad} {
		want := store.PutOff{Return: store.Return{Why: store.Panicked, Detail: said, After: store.RetryDelay, Failed: true}}
		if to, ok := s.handle(t.Context(), job).(Postponed); !ok || to.PutOff != want {
			t.Errorf("%s: %+v", said, to)
		}
	}
	if text := log.String(); strings.Count(text, "a panic while handling a job") != 1 || !strings.Contains(text, "pull_test.go") {
		t.Error(text)
	}
}

type panics struct{}

func (panics) Take(Job) Work { panic(new(panics)) }

// A foreign message is parsed once, not from each of its positions: a pattern that backtracks would take
// longer than a command may.
func TestHostileMessageIsPulledInTime(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	n := newTestWorker(t, client)
	task := asynq.NewTask(store.TaskType, []byte(strings.Repeat(`"app":`, store.MaxEnvelopeSize/8)))
	for range MaxPull {
		_, err := asynq.NewClientFromRedisClient(client).Enqueue(task, asynq.Queue(shard.NewShards(client, "", 1)[0].Queue(push.Default.Queue())), asynq.MaxRetry(store.MaxRetry))
		must(t, err)
	}
	if jobs, err := n.take(n.queue); len(jobs) != MaxPull || err != nil {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
}

func TestPullDropsIDWithoutJob(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	n := newTestWorker(t, client)
	n.enqueue("one", "two")
	must(t, client.Del(t.Context(), n.key("t:one")).Err())
	if ids := n.pull(); !slices.Equal(ids, []string{"two"}) {
		t.Errorf("pulled %v", ids)
	}
	if left := client.Exists(t.Context(), n.key("t:one")).Val() + client.LLen(t.Context(), n.key("active")).Val(); left != 1 {
		t.Errorf("%d jobs are claimed", left)
	}
}
