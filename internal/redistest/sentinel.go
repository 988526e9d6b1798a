//go:build unix

package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redisserver"
)

// MasterName is the name of StartSentinel's master.
const MasterName = "main"

// StartSentinel runs a Sentinel until the test ends. It watches master under MasterName.
func StartSentinel(t testing.TB, master *Server, opts ...Option) *Server {
	t.Helper()
	require(t)
	dir := t.TempDir()
	conf := fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 1\n", MasterName, master.server.Port)
	if master.server.Password != "" {
		conf += fmt.Sprintf("sentinel auth-pass %s %s\n", MasterName, master.server.Password)
	}
	file := filepath.Join(dir, "sentinel.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, redisserver.Options{Dir: dir, Config: file}, append([]Option{Args("--sentinel")}, opts...)...)
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	c := s.Client(t)
	err := redisserver.Poll(ctx, func() error {
		return c.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName).Err()
	})
	if err != nil {
		t.Fatalf("redistest: Sentinel on %s: %v", s.Addr(), err)
	}
	// Sentinel learns of a replica when it next asks the master, by default every 10 s. Redis 6 does
	// not know this command, and keeps the default.
	_ = c.Do(ctx, "SENTINEL", "DEBUG", "INFO-PERIOD", "200").Err()
	return s
}

// SentinelReplica runs a replica of the master until the test ends. It returns when the Sentinel is
// ready to promote the replica, half a second after the master becomes unreachable.
func SentinelReplica(t testing.TB, master, sentinel *Server, opts ...Option) *Server {
	t.Helper()
	s := Start(t, append([]Option{Args("--replicaof", "127.0.0.1 "+strconv.Itoa(master.server.Port))}, opts...)...)
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	watch := redis.NewSentinelClient(sentinel.Options())
	defer watch.Close()
	err := errors.Join(watch.Set(ctx, MasterName, "down-after-milliseconds", "500").Err(), watch.Set(ctx, MasterName, "failover-timeout", "3000").Err())
	if err == nil {
		err = redisserver.Poll(ctx, func() error {
			known, err := watch.Replicas(ctx, MasterName).Result()
			if err == nil && (len(known) != 1 || known[0]["master-link-status"] != "ok" || known[0]["flags"] != "slave") {
				err = fmt.Errorf("the replica is not known: %v", known)
			}
			return err
		})
	}
	if err != nil {
		t.Fatalf("redistest: Sentinel on %s: %v", sentinel.Addr(), err)
	}
	return s
}

// FailOver stops the master for good, and returns when Sentinel or the Cluster has promoted the
// replica.
func FailOver(t testing.TB, master, replica *Server) {
	t.Helper()
	master.Pause(t)
	Promoted(t, replica)
}

// Promoted returns when the replica has become the master. On a Cluster it asks CLUSTER NODES, since
// a starting node reports itself as a master at first.
func Promoted(t testing.TB, replica *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*startLimit)
	defer cancel()
	c := replica.Client(t)
	err := redisserver.Poll(ctx, func() error {
		info, err := c.Info(ctx, "replication").Result()
		master := strings.Contains(info, "role:master\r\n")
		if err == nil && master && replica.server.Bus {
			info, err = c.ClusterNodes(ctx).Result()
			master = strings.Contains(info, "myself,master")
		}
		if err == nil && !master {
			err = errors.New("the replica has not replaced its master")
		}
		return err
	})
	if err != nil {
		t.Fatalf("redistest: replica %s: %v", replica.Addr(), err)
	}
}
