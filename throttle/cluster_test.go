//go:build unix

package throttle_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/throttle"
)

var (
	clusterGeneral  = throttle.Policy{MinGap: 5 * time.Millisecond, Rates: []throttle.Rate{{Count: 4, Period: 100 * time.Millisecond}}}
	clusterCategory = throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: 40 * time.Millisecond}}}
)

func clusterRequest(user, id string, category bool) throttle.Request {
	r := throttle.Request{User: user, ID: id, Horizon: time.Minute, Scopes: []throttle.Scope{{Name: throttle.General, Policy: clusterGeneral}}}
	if category {
		r.Scopes = append(r.Scopes, throttle.Scope{Name: "news", Policy: clusterCategory})
	}
	return r
}

// acquireUntil acquires, and comes back at each slot, until it is granted. A
// cluster that cannot serve now is asked again.
func acquireUntil(ctx context.Context, l throttle.Planner, r throttle.Request) (d throttle.Decision, failures int, err error) {
	for {
		d, err = l.Acquire(ctx, r)
		again := d.Left
		switch {
		case errors.Is(err, throttle.ErrUnavailable):
			failures++
			again = 5 * time.Millisecond
		case err != nil || d.Status == throttle.Granted:
			return d, failures, err
		case d.Status != throttle.Deferred:
			return d, failures, fmt.Errorf("%s: %+v", r.ID, d)
		}
		select {
		case <-ctx.Done():
			return d, failures, fmt.Errorf("%s: not granted in time: %w", r.ID, errors.Join(ctx.Err(), err))
		case <-time.After(again):
		}
	}
}

func startCluster(t *testing.T) ([]*redistest.Server, func() *redis.ClusterClient) {
	nodes := redistest.StartCluster(t, 3)
	var addresses []string
	for _, node := range nodes {
		addresses = append(addresses, node.Addr())
	}
	return nodes, func() *redis.ClusterClient {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses, ContextTimeoutEnabled: true})
	}
}

// judgeNodes judges the leaks of every node, and answers how many have keys.
func judgeNodes(ctx context.Context, t *testing.T, c *redis.ClusterClient, pattern string) int {
	t.Helper()
	var served atomic.Int32
	err := c.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		keys, err := node.Keys(ctx, pattern).Result()
		if len(keys) > 0 {
			served.Add(1)
		}
		judgeLeaks(t, node, pattern)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return int(served.Load())
}

// TestClusterMovesASlot moves a user's timeline to another node, key by key,
// while the user's notifications are acquired.
func TestClusterMovesASlot(t *testing.T) {
	t.Parallel()
	nodes, client := startCluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := client()
	defer c.Close()
	limiter := throttle.NewRedis(c, throttle.Options{Prefix: "moved"})
	defer limiter.Close()

	const user, key = "u", "moved:{u}:sent"
	const jobs = 60
	var mu sync.Mutex
	var log []grant
	failed := 0
	started := make(chan struct{})
	var calls sync.WaitGroup
	for i := range jobs {
		calls.Go(func() {
			if i%4 > 0 { // one after another, so that some are new at every stage
				select {
				case <-time.After(time.Duration(i) * 20 * time.Millisecond):
				case <-ctx.Done():
				}
			}
			id := fmt.Sprintf("n%d", i)
			d, failures, err := acquireUntil(ctx, limiter, clusterRequest(user, id, i%3 == 0))
			mu.Lock()
			defer mu.Unlock()
			failed += failures
			if err != nil {
				t.Error(err)
				return
			}
			log = append(log, grant{user, id, i%3 == 0, d.At.UnixMicro()})
			if len(log) == 4 {
				close(started)
			}
		})
	}
	select {
	case <-started:
		moveSlot(ctx, t, nodes, key, func() {
			select {
			case <-time.After(100 * time.Millisecond): // some acquire in the middle
			case <-ctx.Done():
			}
		})
	case <-ctx.Done():
		t.Error("nothing was granted")
	}
	calls.Wait()
	judgeTimelines(t, c, "moved", clusterGeneral, clusterCategory, log)
	judgeNodes(ctx, t, c, "moved:*")
	t.Logf("%d grants, %d calls that failed while the slot moved", len(log), failed)

	// the limiter finds the new node, and is back to one round trip
	for i := 0; ; i++ {
		d, _, err := acquireUntil(ctx, limiter, throttle.Request{User: user, ID: fmt.Sprintf("after%d", i), Horizon: time.Minute,
			Scopes: []throttle.Scope{{Name: "free"}}})
		if err != nil {
			t.Fatal(err)
		}
		before := limiter.RoundTrips()
		if d, err = limiter.Acquire(ctx, throttle.Request{User: user, ID: fmt.Sprintf("one%d", i), Horizon: time.Minute,
			Scopes: []throttle.Scope{{Name: "free"}}}); err != nil || d.Status != throttle.Granted {
			t.Fatalf("%+v, %v", d, err)
		}
		if limiter.RoundTrips() == before+1 {
			break
		}
	}
}

// moveSlot moves the key's slot to another node; between calls pause.
func moveSlot(ctx context.Context, t *testing.T, nodes []*redistest.Server, key string, pause func()) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	var clients []*redis.Client
	var ids []string
	for _, node := range nodes {
		c := node.Client(t)
		id, err := c.Do(ctx, "CLUSTER", "MYID").Text()
		must(err)
		clients, ids = append(clients, c), append(ids, id)
	}
	from := slices.IndexFunc(clients, func(c *redis.Client) bool { return c.Exists(ctx, key).Err() == nil })
	if from < 0 {
		t.Fatal("no node has the slot")
	}
	to := (from + 1) % len(nodes)
	slot, err := clients[from].ClusterKeySlot(ctx, key).Result()
	must(err)
	must(clients[to].Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[from]).Err())
	must(clients[from].Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[to]).Err())
	pause()
	for {
		keys, err := clients[from].ClusterGetKeysInSlot(ctx, int(slot), 1).Result()
		must(err)
		if len(keys) == 0 {
			break
		}
		host, port, err := net.SplitHostPort(nodes[to].Addr())
		must(err)
		must(clients[from].Migrate(ctx, host, port, keys[0], 0, 5*time.Second).Err())
		pause()
	}
	for _, i := range []int{to, from, 3 - to - from} {
		must(clients[i].Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", ids[to]).Err())
	}
}
