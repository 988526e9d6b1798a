package pipeline_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, redistest.Dialing()) }

// count is a hook that counts the sent pipelines.
type count struct {
	pipelines, longest atomic.Int64
	lose               atomic.Bool // drops the next reply, with its connection
}

func (*count) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*count) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (c *count) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.pipelines.Add(1)
		for n := c.longest.Load(); int64(len(cmds)) > n && !c.longest.CompareAndSwap(n, int64(len(cmds))); n = c.longest.Load() {
		}
		return next(ctx, cmds)
	}
}

// open returns a client of addr with a shared pipeline.
func open(t *testing.T, addr string, timeout time.Duration) (redis.UniversalClient, *count) {
	t.Helper()
	base, counter := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1}), new(count)
	base.AddHook(counter)
	shared, stop := pipeline.Share(base, pipeline.Options{Timeout: timeout})
	t.Cleanup(func() {
		stop()
		base.Close()
	})
	return shared, counter
}

func TestConcurrentCommandsSharePipelines(t *testing.T) {
	client, counter := open(t, redistest.Miniredis(t).Addr(), time.Second)
	ctx := t.Context()
	const goroutines, each = 64, 50
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			key := strconv.Itoa(g)
			for i := range each {
				if n, err := client.Incr(ctx, key).Result(); err != nil || n != int64(i+1) {
					t.Errorf("INCR answers %d, %v; want %d", n, err, i+1)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := counter.pipelines.Load(); n > goroutines*each/2 {
		t.Errorf("%d pipelines for %d commands", n, goroutines*each)
	}
}

// A lane does not take all waiting groups with Prepare.
func TestLaneLeavesPreparedGroupsToOtherLanes(t *testing.T) {
	base, counter := redis.NewClient(&redis.Options{Addr: redistest.Miniredis(t).Addr(), MaxRetries: -1}), new(count)
	defer base.Close()
	base.AddHook(counter)
	p := pipeline.New(base, pipeline.Options{})
	defer p.Close()
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			g := new(pipeline.Group)
			g.Prepare = func() { g.Commands = []redis.Cmder{redis.NewStatusCmd(t.Context(), "ping")} }
			if err := p.Do(g); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := counter.longest.Load(); n > 100 {
		t.Errorf("%d share a pipeline", n)
	}
}

func TestErrorsStayWithTheirCommand(t *testing.T) {
	client, _ := open(t, redistest.Miniredis(t).Addr(), time.Second)
	ctx := t.Context()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := client.Get(ctx, "none").Err(); !errors.Is(err, redis.Nil) {
				t.Errorf("GET of nothing: %v", err)
			}
		})
		wg.Go(func() {
			if err := client.Set(ctx, "text", "a", 0).Err(); err != nil {
				t.Error(err)
			}
			if err := client.Incr(ctx, "text").Err(); err == nil {
				t.Error("INCR of a text works")
			}
		})
	}
	wg.Wait()
	pipe := client.Pipeline()
	set, bad, get := pipe.Set(ctx, "k", "v", 0), pipe.LPush(ctx, "text", "x"), pipe.Get(ctx, "k")
	if _, err := pipe.Exec(ctx); err == nil || set.Err() != nil || bad.Err() == nil || get.Val() != "v" {
		t.Errorf("pipeline: %v, %v, %v, %q", err, set.Err(), bad.Err(), get.Val())
	}
	tx := client.TxPipeline()
	n := tx.Incr(ctx, "n")
	if _, err := tx.Exec(ctx); err != nil || n.Val() != 1 {
		t.Errorf("a transaction goes its own way: %v, %d", err, n.Val())
	}
	if got := redis.NewScript("return ARGV[1]").Run(ctx, client, nil, "x"); got.Val() != "x" {
		t.Errorf("a script that is not loaded yet: %v", got)
	}
}

// A Redis that accepts and never answers blocks no caller for long, however many wait.
func TestHungRedisFailsWithinTimeout(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	const timeout = 200 * time.Millisecond
	client, _ := open(t, listener.Addr().String(), timeout)
	start := time.Now()
	var wg sync.WaitGroup
	for range 2000 {
		wg.Go(func() {
			if err := client.Ping(context.Background()).Err(); err == nil {
				t.Error("an answer from nobody")
			}
		})
	}
	wg.Wait()
	if took := time.Since(start); took > 10*timeout {
		t.Errorf("took %s", took)
	}
}

func TestClosedPipelineReturnsError(t *testing.T) {
	base := redis.NewClient(&redis.Options{Addr: redistest.Miniredis(t).Addr()})
	defer base.Close()
	p := pipeline.New(base, pipeline.Options{})
	p.Close()
	p.Close()
	g := &pipeline.Group{Commands: []redis.Cmder{redis.NewStatusCmd(context.Background(), "ping")}}
	if err := p.Do(g); !errors.Is(err, pipeline.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
