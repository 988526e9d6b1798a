package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/acknowledged"
	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/redistest"
)

// openCluster starts a Cluster of three masters. It returns a client whose scripts share round
// trips, and one key of each master.
func openCluster(t *testing.T, o pipeline.Options) (shared redis.UniversalClient, nodes []*redistest.Server, keys []string, counter *count) {
	t.Helper()
	t.Parallel()
	nodes, counter = redistest.StartCluster(t, 3, redistest.Args("--cluster-require-full-coverage", "no")), new(count)
	base := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{nodes[0].Addr(), nodes[1].Addr(), nodes[2].Addr()}, ContextTimeoutEnabled: true,
		DialTimeout: redistest.Patience, ReadTimeout: redistest.Patience, WriteTimeout: redistest.Patience,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return &losing{Conn: conn, lose: &counter.lose}, err
		},
	})
	redistest.Hook(base, counter)
	shared, stop := pipeline.Share(base, o)
	t.Cleanup(func() {
		stop()
		base.Close()
	})
	for _, node := range nodes {
		for i := 0; ; i++ {
			if key := fmt.Sprintf("{%d}:k", i); redistest.NodeOf(t, nodes, key) == node {
				keys = append(keys, key)
				break
			}
		}
	}
	return shared, nodes, keys, counter
}

var incr = redis.NewScript(`return redis.call('INCRBY', KEYS[1], ARGV[1])`)

// On a Cluster scripts share round trips to the master that has their keys.
func TestClusterScriptsShareRoundTrips(t *testing.T) {
	client, _, keys, counter := openCluster(t, pipeline.Options{Timeout: redistest.Patience})
	const goroutines, each = 48, 10
	var all sync.WaitGroup
	for i := range goroutines {
		all.Go(func() {
			for range each {
				if err := incr.Run(t.Context(), client, keys[i%len(keys):][:1], 2).Err(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	for _, key := range keys {
		if n, err := client.Get(t.Context(), key).Int(); err != nil || n != 2*each*goroutines/len(keys) {
			t.Errorf("%s is %d (%v)", key, n, err)
		}
	}
	if n := counter.pipelines.Load(); n == 0 || n > goroutines*each/2 {
		t.Errorf("%d pipelines for %d scripts", n, goroutines*each)
	}
}

// A script is redirected to the hash slot's new master, and run once.
func TestScriptFollowsMovedSlot(t *testing.T) {
	client, nodes, keys, _ := openCluster(t, pipeline.Options{Timeout: redistest.Patience})
	ctx := t.Context()
	batches := pipeline.NewBatches[*added](client)
	must(t, incr.Run(ctx, client, keys[:1], 1).Err())
	slot := int(nodes[0].Client(t).ClusterKeySlot(ctx, keys[0]).Val())
	other := nodes[1].Client(t)
	id := other.Do(ctx, "CLUSTER", "MYID").Val()
	if err := nodes[0].Client(t).Del(ctx, keys[0]).Err(); err != nil { // SETSLOT needs an empty slot
		t.Fatal(err)
	}
	for _, node := range []*redistest.Server{nodes[1], nodes[0], nodes[2]} {
		must(t, node.Client(t).Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", id).Err())
	}
	if n, err := incr.Run(ctx, client, keys[:1], 1).Int(); n != 1 || err != nil {
		t.Errorf("after the move: %d, %v", n, err)
	}
	if err := batches.Do(ctx, keys[0], "", func() *added { return &added{key: keys[0]} }, func(a *added) { a.n++ }); err != nil {
		t.Errorf("of a batch: %v", err)
	}
	if n, err := other.Get(ctx, keys[0]).Int(); n != 2 || err != nil {
		t.Errorf("in the end: %d, %v", n, err)
	}
}

// While a script's keys are on two masters, it waits until one master has all keys, and is run once.
func TestScriptWaitsForMigratingSlot(t *testing.T) {
	client, nodes, keys, _ := openCluster(t, pipeline.Options{Timeout: redistest.Patience})
	ctx := t.Context()
	both := redis.NewScript(`
for i = 1, 2 do redis.call('INCR', KEYS[i]) end
return redis.call('EXISTS', KEYS[3])`)
	three := []string{keys[0], keys[0] + "2", keys[0] + " is never there"}
	run := func() error { return both.Run(ctx, client, three).Err() }
	must(t, run())
	slot, times, over := int(nodes[0].Client(t).ClusterKeySlot(ctx, keys[0]).Val()), 1, make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for moving := true; moving; times++ {
			select {
			case <-over:
				moving = false
			default:
			}
			if err := run(); err != nil {
				t.Errorf("while its slot moves: %v", err)
				return
			}
		}
	})
	redistest.Reshard(t, nodes[0], nodes[1], nodes, redistest.Moving{Keys: 1, Pause: 50 * time.Millisecond}, slot)
	close(over)
	running.Wait()
	for _, key := range three[:2] {
		if n, err := nodes[1].Client(t).Get(ctx, key).Int(); n != times || err != nil {
			t.Errorf("%s was counted up %d times of %d: %v", key, n, times, err)
		}
	}
}

// added is a batch of increments of a key.
type added struct {
	key string
	n   int
}

func (a *added) Len() int { return a.n }

func (a *added) Command(ctx context.Context) *redis.Cmd {
	return redis.NewCmd(ctx, "eval", `return redis.call('INCRBY', KEYS[1], ARGV[1])`, 1, a.key, a.n)
}

func (a *added) Read(_ context.Context, cmd *redis.Cmd) ([]error, error) {
	return make([]error, a.n), cmd.Err()
}

func TestClusterBatchHasOneHashSlot(t *testing.T) {
	client, _, keys, _ := openCluster(t, pipeline.Options{Timeout: redistest.Patience})
	batches := pipeline.NewBatches[*added](client)
	var all sync.WaitGroup
	for i := range 300 {
		key := keys[i%len(keys)]
		all.Go(func() {
			if err := batches.Do(t.Context(), key, "", func() *added { return &added{key: key} }, func(a *added) { a.n++ }); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, key := range keys {
		if n, err := client.Get(t.Context(), key).Int(); n != 100 || err != nil {
			t.Errorf("%s is %d (%v)", key, n, err)
		}
	}
}

// A script may have been run before its connection is lost, and is not sent again.
func TestLostConnectionDoesNotRepeatScript(t *testing.T) {
	client, _, keys, counter := openCluster(t, pipeline.Options{Timeout: redistest.Patience})
	ctx := t.Context()
	must(t, incr.Run(ctx, client, keys[:1], 1).Err())
	counter.lose.Store(true)
	if err := incr.Run(ctx, client, keys[:1], 1).Err(); !errors.Is(err, io.EOF) || counter.lose.Load() {
		t.Errorf("the script's answer was lost, but the error is: %v", err)
	}
	if n, err := client.Get(ctx, keys[0]).Int(); n != 2 || err != nil {
		t.Errorf("it was run: %d, %v", n, err)
	}
	if err := incr.Run(ctx, client, keys[:1], 1).Err(); err != nil {
		t.Errorf("by the next connection: %v", err)
	}
}

// losing is a connection that, once lose is set, drops the next reply and ends.
type losing struct {
	net.Conn
	lose *atomic.Bool
	lost bool
}

func (l *losing) Read(b []byte) (int, error) {
	if l.lost {
		return 0, io.EOF
	}
	n, err := l.Conn.Read(b)
	if err == nil && l.lose.CompareAndSwap(true, false) {
		l.lost = true
		return 0, io.EOF
	}
	return n, err
}

// While a master hangs, its callers fail at once, except for a probe now and then. Callers of other
// masters are not affected. When the master answers again, its callers use it again.
func TestHungMasterFailsFast(t *testing.T) {
	const timeout = time.Second
	client, nodes, keys, counter := openCluster(t, pipeline.Options{Timeout: timeout})
	ctx := t.Context()
	run := func(i int) error { return incr.Run(ctx, client, keys[i:i+1], 1).Err() }
	for i := range keys {
		must(t, run(i))
	}
	nodes[0].Pause(t)
	if err := run(0); err == nil {
		t.Error("an answer of a master that hangs")
	}
	const rounds, leastClosed = 200, 250 * time.Millisecond
	before, began := counter.pipelines.Load(), time.Now()
	for range rounds {
		if err := run(0); err == nil {
			t.Error("an answer of a master that hangs")
		}
		asks := time.Now()
		if err := run(1); err != nil && time.Since(asks) < timeout { // else the machine has stalled
			t.Errorf("another master: %v", err)
		}
	}
	if asked, most := counter.pipelines.Load()-before-rounds, 1+int64(time.Since(began)/leastClosed); asked > most {
		t.Errorf("the one that hangs was asked %d times, want at most %d", asked, most)
	}
	nodes[0].Resume(t)
	if !eventually.Within(eventually.Patience, func() bool { return run(0) == nil }) {
		t.Fatal("a master that answers again is not asked")
	}
}

var exists = acknowledged.Reader(redis.NewScript(`return redis.call('EXISTS', KEYS[1])`))

// While no replica acknowledges a master's writes, the writes fail at once, but scripts that only
// read still work.
func TestReadsNeedNoReplica(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3, redistest.Args("--cluster-require-full-coverage", "no"))
	base := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}, ContextTimeoutEnabled: true, ReadTimeout: redistest.Patience})
	defer base.Close()
	must(t, acknowledged.Writes(base, 1))
	const timeout = 400 * time.Millisecond
	shared, stop := pipeline.Share(base, pipeline.Options{Timeout: timeout})
	defer stop()
	ctx, key := t.Context(), []string{"{a}:k"}
	_ = exists.Run(ctx, shared, key).Err() // loads the script
	for range 3 {
		if err := incr.Run(ctx, shared, key, 1).Err(); !errors.Is(err, acknowledged.ErrUnacknowledged) {
			t.Errorf("a write: %v", err)
		}
		asks := time.Now()
		if err := exists.Run(ctx, shared, key).Err(); err != nil && time.Since(asks) < timeout { // else the machine has stalled
			t.Errorf("a read: %v", err)
		}
	}
}
