package queue

import (
	"context"
	"errors"
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

// A panic over a job that is taken in hand costs that job its visit alone.
func TestAPanicOverAJob(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	c := &client{handler: panics{}, idle: newIdle(shard.Shard{}, NewHands(6), leads), config: Config{Hands: NewHands(6), Log: slog.New(slog.NewTextHandler(&log, nil))}}
	c.works.note("", handed{func(context.Context) error {
		var none []string
		return errors.New(none[3])
	}, func() {}})
	for name, work := range map[string]Work{
		"a panic: *queue.panics": c.workOf(Job{ID: "worse"}),
		"a panic: runtime error: index out of range [3] with length 0": func(ctx context.Context) error {
			return processor{c}.ProcessTask(ctx, nil)
		},
	} {
		var r *Return
		if err := work(t.Context()); !errors.As(err, &r) || *r != (Return{Why: Panicked, Detail: name, After: Again, Failed: true}) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if text := log.String(); strings.Count(text, "a panic over a job") != 1 || !strings.Contains(text, "pull_test.go") {
		t.Error(text)
	}
}

type panics struct{}

func (panics) Take(Job) Work { panic(new(panics)) }

// A job follows the one before it of the same user and category where another worker has that
// in hand, whatever was pulled in between.
func TestWhatAJobFollows(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	enqueue := func(user string, ids ...string) {
		t.Helper()
		for _, id := range ids {
			if _, err := push.NewProducer(client, "", 0).Enqueue(t.Context(), &push.Notification{
				ID: id, App: "demo", User: user, Title: "hi", Targets: []push.Target{{Platform: push.APNs, Token: "00"}},
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	one, other := newNewcomer(t, client), newNewcomer(t, client)
	take := func(n *newcomer, want ...string) {
		t.Helper()
		jobs, _, err := n.once()
		if err != nil {
			t.Fatal(err)
		}
		var follow []string
		for _, job := range jobs {
			follow = append(follow, job.follows)
		}
		if !slices.Equal(follow, want) {
			t.Errorf("the jobs taken follow %q, want %q", follow, want)
		}
	}
	enqueue("ada", "a1")
	enqueue("bob", "b1")
	take(one, "", "")
	enqueue("ada", "a2", "a3")
	enqueue("eve", "e1")
	enqueue("bob", "b2")
	take(other, "a1", "", "", "b1")
	enqueue("ada", "a4")
	take(other, "") // its own are in order as it is
	enqueue("ada", "a5")
	take(one, "a4")
	if err := client.Del(t.Context(), one.client.shard.QueueKey(one.queue, "t:a5")).Err(); err != nil { // it has ended
		t.Fatal(err)
	}
	enqueue("ada", "a6")
	take(other, "")
	newer, older := one.client.shard.QueueKey(one.queue, "latest"), one.client.shard.QueueKey(one.queue, "latest:older")
	var many []any
	for i := range remembered {
		many = append(many, i, "")
	}
	client.HSet(t.Context(), newer, many...)
	enqueue("ada", "a7")
	take(one, "a6") // which is in the older hash now
	if newer, older := client.HLen(t.Context(), newer).Val(), client.HLen(t.Context(), older).Val(); newer != 1 || older < remembered {
		t.Errorf("%d and %d are remembered", newer, older)
	}
}

// A message that no Producer of ours has made is looked through once, and not from each of its
// places: a pattern that backtracks takes longer than a command may.
func TestAHostileMessageIsPulled(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	n := newNewcomer(t, client)
	task := asynq.NewTask(store.TaskType, []byte(strings.Repeat(`"app":`, store.MaxEnvelopeSize/8)))
	for range prefetched {
		if _, err := asynq.NewClientFromRedisClient(client).Enqueue(task, asynq.Queue(shard.Named(client, "", 1)[0].Queue(push.Default.Queue())), asynq.MaxRetry(store.MaxRetry)); err != nil {
			t.Fatal(err)
		}
	}
	if jobs, _, err := n.once(); len(jobs) != prefetched || err != nil {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
}

// An ID without a job is in nobody's hands.
func TestAnIDWithoutAJobIsDropped(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	n := newNewcomer(t, client)
	n.enqueue("one", "two")
	if err := client.Del(t.Context(), n.key("t:one")).Err(); err != nil {
		t.Fatal(err)
	}
	if ids := n.pull(); !slices.Equal(ids, []string{"two"}) {
		t.Errorf("pulled %v", ids)
	}
	if left := client.Exists(t.Context(), n.key("t:one")).Val() + client.LLen(t.Context(), n.key("active")).Val(); left != 1 {
		t.Errorf("%d are in hand", left)
	}
}
