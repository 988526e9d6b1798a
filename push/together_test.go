package push_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
)

// Concurrent callers share calls of the script, on a Redis that loses the script meanwhile, and then on a
// Redis with counts of the wrong type. Each caller gets its own result: of two with the same ID, only one
// notification is new.
func TestConcurrentEnqueuesShareScriptCalls(t *testing.T) {
	t.Parallel()
	base := redistest.Start(t).Client(t)
	calls := redistest.Count(base, redistest.Script)
	client, stop := pipeline.Share(base, pipeline.Options{Timeout: redistest.Patience})
	t.Cleanup(stop)
	producer := push.NewProducer(client, "", 0)
	const callers, each = 64, 50
	var queued int64
	enqueue := func(name string, meanwhile func() error) (refused int64) {
		var all sync.WaitGroup
		var taken, known, failed atomic.Int64
		for c := range callers {
			all.Go(func() {
				for i := range each {
					r, err := producer.Enqueue(t.Context(), order(fmt.Sprint(name, i, "-", c/2), nil)) // two callers each
					switch {
					case redis.HasErrorPrefix(err, "WRONGTYPE"):
						failed.Add(1)
					case err != nil:
						t.Error(err)
					case r.Known:
						known.Add(1)
					default:
						taken.Add(1)
					}
				}
			})
		}
		if err := meanwhile(); err != nil {
			t.Error(err)
		}
		all.Wait()
		queued += taken.Load()
		if taken.Load() != known.Load() || taken.Load()+known.Load()+failed.Load() != callers*each {
			t.Errorf("%s: %d are new, %d known, %d refused of %d", name, taken.Load(), known.Load(), failed.Load(), callers*each)
		}
		if n := base.LLen(t.Context(), shard.NewShards(base, "", 1)[0].QueueKey(push.Default.Queue(), "pending")).Val(); n != queued {
			t.Errorf("%s: %d are queued of %d", name, n, queued)
		}
		return failed.Load()
	}
	if n := enqueue("forgets", func() error { return base.ScriptFlush(t.Context()).Err() }); n > 0 {
		t.Errorf("%d were refused", n)
	}
	if n := calls.Load(); n > callers*each/2 {
		t.Errorf("%d calls for %d notifications", n, callers*each)
	}
	if n := enqueue("refuses", func() error {
		return base.Set(t.Context(), shard.NewShards(base, "pushpace", 1)[0].Key("counts"), "of another type", 0).Err()
	}); n == 0 {
		t.Error("none was refused")
	}
}
