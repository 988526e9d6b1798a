package queue

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
)

// Beside what stays on its queue a pull takes more, and what is done is looked for from
// the end of the active list that fewer of what is in hand lie at.
func TestAPullBesideWhatStays(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		var stalled []Stalled
		c := newClient(Config{
			Client: client, Records: push.NewRecords(client, "", 0), Stalled: func(string, time.Time) []Stalled { return stalled },
			Log: slog.New(slog.DiscardHandler), RedisLog: slog.New(slog.DiscardHandler),
		})
		queue := push.Bulk.Queue()
		for i := range 2 * prefetchedMore {
			if _, err := asynq.NewClientFromRedisClient(client).Enqueue(asynq.NewTask(push.TaskType, nil), asynq.TaskID(fmt.Sprint(i)), asynq.Queue(queue)); err != nil {
				t.Fatal(err)
			}
		}
		take := func(want int) {
			t.Helper()
			keys := []string{push.QueueKey(queue, "pending"), push.QueueKey(queue, "paused"), push.QueueKey(queue, "active"), push.QueueKey(queue, "lease")}
			jobs, _, err := c.take(t.Context(), queue, keys, []any{time.Now().Add(time.Minute).Unix(), push.QueueKey(queue, "t:")})
			if err != nil || len(jobs) != want {
				t.Errorf("it takes %d jobs, %v, want %d", len(jobs), err, want)
			}
		}
		take(prefetched)
		stalled = []Stalled{
			{Mark: "this", Until: time.Now().Add(time.Second), InHand: 8, Skipped: func(int64) {}},
			{Mark: "that", Until: time.Now().Add(time.Second), InHand: 12, Skipped: func(int64) {}},
		}
		take(prefetchedMore)
		for inHand, want := range map[int64]bool{39: true, 40: false} {
			if c.idle.inHand.Store(inHand); c.mostStuck(queue) != want {
				t.Errorf("of %d in hand 20 are stuck, and most: %t", inHand, !want)
			}
		}
		if c.mostStuck(push.Critical.Queue()) {
			t.Error("it is so of another queue")
		}
		stalled = nil
		take(prefetched)
		if c.mostStuck(queue) {
			t.Error("nothing is stalled any more")
		}
	})
}

// A panic over a job that is taken in hand costs that job its visit alone.
func TestAPanicOverAJob(t *testing.T) {
	t.Parallel()
	c := &client{handler: panics{}}
	work := c.workOf(Job{ID: "bad"})
	defer func() {
		if cause := recover(); cause != "bad" {
			t.Errorf("the work panics with %v", cause)
		}
	}()
	_ = work(t.Context())
}

type panics struct{}

func (panics) Take(job Job) Work { panic(job.ID) }
