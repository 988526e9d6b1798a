package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/ledger/ledgertest"
	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
)

// heldUp holds the first pipeline until it may go on, and counts the scripts.
type heldUp struct {
	first    sync.Once
	begun    chan struct{}
	goOn     chan struct{}
	evalshas atomic.Int64
}

func (*heldUp) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*heldUp) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (h *heldUp) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.first.Do(func() { close(h.begun); <-h.goOn })
		for _, cmd := range cmds {
			if text, _ := cmd.Args()[1].(string); cmd.Name() == "evalsha" || strings.HasPrefix(text, "#!lua") { // as redistest has it on a Cluster
				h.evalshas.Add(1)
			}
		}
		return next(ctx, cmds)
	}
}

// Jobs that are done while a command is under way share the next one, and each is
// told of itself.
func TestDoneTogether(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		ctx := t.Context()
		key := shard.Named(client, "", 1)[0].QueueKey
		queue, day, total := key(push.Default.Queue(), ""), key(push.Default.Queue(), "processed:today"), key(push.Default.Queue(), "processed")
		ids := []string{"first"}
		for i := range batchMost {
			ids = append(ids, fmt.Sprint(i))
		}
		const astray = "7" // not in hand
		for _, id := range ids {
			if id == astray {
				continue
			}
			client.LPush(ctx, queue+"active", id)
			client.ZAdd(ctx, queue+"lease", redis.Z{Score: 1, Member: id})
			if err := client.HSet(ctx, queue+"t:"+id, "msg", "m").Err(); err != nil {
				t.Fatal(err)
			}
		}
		shared, stop := pipeline.Share(client, pipeline.Options{Timeout: time.Minute})
		t.Cleanup(stop)
		records := ledger.NewRecords(shared, "", 0)
		at := ledgertest.First(t, records)
		hook := &heldUp{begun: make(chan struct{}), goOn: make(chan struct{})}
		redistest.Hook(client, hook)
		groups := pipeline.NewBatches[batch](shared, batchMost)
		var all sync.WaitGroup
		var joined atomic.Int64
		done := func(id string, inHand bool) {
			all.Go(func() {
				keys, args := []string{queue + "active", queue + "lease", queue + "t:" + id, day, total}, []any{id, time.Now().Add(time.Hour).Unix(), 1}
				err := groups.Do(ctx, day, day, func() batch { return batch{at.NewDones(keys, args), false} }, func(b batch) {
					b.Add(id, keys[2], []ledger.TargetOutcome{{Kind: "delivered", Reason: "OK"}})
					joined.Add(1)
				})
				if inHand && err != nil || !inHand && !errors.Is(err, ledger.ErrNotInHand) {
					t.Errorf("%s: %v", id, err)
				}
			})
		}
		done("first", true)
		<-hook.begun
		for _, id := range ids[1:] {
			done(id, id != astray)
		}
		for joined.Load() <= batchMost {
			runtime.Gosched()
		}
		close(hook.goOn)
		all.Wait()
		if n := hook.evalshas.Load(); n != 2 {
			t.Errorf("%d commands for %d jobs", n, len(ids))
		}
		for _, id := range ids {
			done(id, false) // again
		}
		all.Wait()
		left := client.LLen(ctx, queue+"active").Val() + client.ZCard(ctx, queue+"lease").Val() + client.Exists(ctx, queue+"t:first").Val()
		processed, _ := client.Get(ctx, day).Int()
		ever, _ := client.Get(ctx, total).Int()
		counts, err := records.Counts(ctx)
		if err != nil || left != 0 || processed != batchMost || ever != batchMost || counts.Ended[push.Delivered] != int64(len(ids)) || client.TTL(ctx, day).Val() <= 0 {
			t.Errorf("left %d, processed %d, ever %d, %+v (%v)", left, processed, ever, counts, err)
		}
	})
}
