//go:build unix

package throttle_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/throttle"
)

// TestNodeOutageAffectsItsUsersOnly kills or stops one master of a Cluster: the outage mode
// applies to its users, other users see nothing, and the outage ends with the failure.
func TestNodeOutageAffectsItsUsersOnly(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]struct {
		begin, end func(*redistest.Server, testing.TB)
	}{
		"dead": {(*redistest.Server).Kill, (*redistest.Server).Restart},
		"hung": {(*redistest.Server).Pause, (*redistest.Server).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := redistest.StartCluster(t, 3, redistest.Args("--cluster-require-full-coverage", "no"))
			conn := clusterOf(t, nodes)
			limiter := throttle.NewRedis(conn.Client, throttle.Options{Timeout: 15 * time.Second})
			defer limiter.Close()
			open := throttle.WithOutage(limiter, throttle.Open, throttle.OutageOptions{})
			closed := throttle.WithOutage(limiter, throttle.Closed, throttle.OutageOptions{})
			users := map[string][]string{}
			for i := range 60 {
				user := fmt.Sprint("u", i)
				node := limiter.Node(t.Context(), roomyRequest(user, ""))
				users[node] = append(users[node], user)
				if d, err := closed.Acquire(t.Context(), roomyRequest(user, "before")); err != nil || d.Status != throttle.Granted {
					t.Fatalf("before: %+v, %v", d, err)
				}
			}
			if len(users) != 3 {
				t.Fatalf("the users are on %d nodes", len(users))
			}
			trouble.begin(nodes[0], t)
			for round := range 4 {
				for node, list := range users {
					for _, user := range list {
						r := roomyRequest(user, fmt.Sprint("n", round))
						if node == nodes[0].Addr() {
							if d, err := open.Acquire(t.Context(), r); err != nil || !d.Unchecked {
								t.Fatalf("a user of the node, open: %+v, %v", d, err)
							}
							if d, err := closed.Acquire(t.Context(), r); !errors.Is(err, throttle.ErrUnavailable) {
								t.Fatalf("a user of the node, closed: %+v, %v", d, err)
							}
							continue
						}
						if d, err := open.Acquire(t.Context(), r); err != nil || d.Unchecked {
							t.Fatalf("a user of another node, open: %+v, %v", d, err)
						}
						r.ID += "'"
						if d, err := closed.Acquire(t.Context(), r); err != nil || d.Status != throttle.Granted {
							t.Fatalf("a user of another node, closed: %+v, %v", d, err)
						}
					}
				}
			}
			if stats := closed.Stats(); stats.Outages != 1 || stats.Since.IsZero() || stats.Node != nodes[0].Addr() {
				t.Errorf("%+v", stats)
			}
			trouble.end(nodes[0], t)
			for i, o := range []*throttle.Outage{open, closed} {
				eventually.Holds(t, "it is over", func() bool {
					for _, list := range users {
						_, _ = o.Acquire(t.Context(), roomyRequest(list[0], fmt.Sprint("after-", i)))
					}
					return o.Stats().Since.IsZero()
				})
			}
		})
	}
}

// While a user's hash slot moves for longer than a call waits, that user's calls end as in an
// outage, and other users of the node are checked.
func TestMovingHashSlotIsNoOutage(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	limiter := throttle.NewRedis(clusterOf(t, nodes).Client, throttle.Options{Timeout: 5 * time.Second})
	defer limiter.Close()
	open := throttle.WithOutage(limiter, throttle.Open, throttle.OutageOptions{})
	closed := throttle.WithOutage(limiter, throttle.Closed, throttle.OutageOptions{})
	of := map[string][]string{}
	for i := range 30 {
		user := fmt.Sprint("u", i)
		node := limiter.Node(t.Context(), roomyRequest(user, ""))
		of[node] = append(of[node], user)
		if d, err := closed.Acquire(t.Context(), roomyRequest(user, "before")); err != nil || d.Status != throttle.Granted {
			t.Fatalf("before: %+v, %v", d, err)
		}
	}
	users := of[nodes[0].Addr()]
	client, target := nodes[0].Client(t), nodes[1].Client(t)
	slot := client.ClusterKeySlot(t.Context(), "{"+shard.UserTag("", users[0])+"}").Val()
	id := func(c *redis.Client) any { return c.Do(t.Context(), "CLUSTER", "MYID").Val() }
	for _, err := range []error{
		target.Do(t.Context(), "CLUSTER", "SETSLOT", slot, "IMPORTING", id(client)).Err(),
		client.Do(t.Context(), "CLUSTER", "SETSLOT", slot, "MIGRATING", id(target)).Err(),
	} {
		must(t, err)
	}
	for round := range 3 {
		if d, err := open.Acquire(t.Context(), roomyRequest(users[0], fmt.Sprint("open-", round))); err != nil || !d.Unchecked {
			t.Errorf("the user whose slot moves, open: %+v, %v", d, err)
		}
		if d, err := closed.Acquire(t.Context(), roomyRequest(users[0], fmt.Sprint("closed-", round))); !errors.Is(err, throttle.ErrUnavailable) {
			t.Errorf("the user whose slot moves, closed: %+v, %v", d, err)
		}
		for _, user := range users[1:] {
			if d, err := open.Acquire(t.Context(), roomyRequest(user, fmt.Sprint("open-", round))); err != nil || d.Unchecked {
				t.Errorf("another user of the node, open: %+v, %v", d, err)
			}
			if d, err := closed.Acquire(t.Context(), roomyRequest(user, fmt.Sprint("closed-", round))); err != nil || d.Status != throttle.Granted {
				t.Errorf("another user of the node, closed: %+v, %v", d, err)
			}
		}
	}
	if stats := open.Stats(); stats.Outages != 0 || stats.Unchecked != 3 {
		t.Errorf("open: %+v", stats)
	}
	if stats := closed.Stats(); stats.Outages != 0 || stats.Failed != 3 {
		t.Errorf("closed: %+v", stats)
	}
}

// clusterOf connects to a Cluster as pushpace does.
func clusterOf(t *testing.T, nodes []*redistest.Server) *redisconn.Conn {
	t.Helper()
	cfg := config.Redis{DialTimeout: 5 * time.Second, Timeout: 5 * time.Second}
	cfg.Address.Mode = config.Cluster
	for _, node := range nodes {
		cfg.Address.Hosts = append(cfg.Address.Hosts, node.Addr())
	}
	conn, err := redisconn.Open(t.Context(), cfg, 16)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func roomyRequest(user, id string) throttle.Request {
	return throttle.Request{User: user, ID: id, Horizon: time.Hour,
		Scopes: []throttle.Scope{{Name: throttle.General, Policy: throttle.Policy{Rates: []throttle.Rate{{Count: 1000, Period: time.Hour}}}}}}
}
