//go:build unix

package redistest

import (
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redisserver"
)

// databases is the number of databases of the shared server.
const databases = 4096

var shared struct {
	once     sync.Once
	server   *Server
	err      error
	prefix   atomic.Int64
	database atomic.Int64
}

// Shared returns one server for all tests of a test binary, without persistence. It ends with the
// binary. Prefix or Database separates the tests, which must not call Kill, Restart, Pause or
// FLUSHALL.
func Shared(t testing.TB) *Server {
	t.Helper()
	require(t)
	shared.once.Do(func() {
		// The server reads and writes no file, because nothing would remove the file when the test
		// binary ends.
		server, err := redisserver.Start(redisserver.Options{
			Dir: os.TempDir(), Log: os.DevNull, Reserve: reserve,
			Args: []string{"--databases", strconv.Itoa(databases), "--appendonly", "no", "--dbfilename", "redistest-none.rdb"},
		})
		shared.server, shared.err = &Server{server}, err
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

// Prefix returns a key prefix that no other test of the binary has.
func Prefix() string {
	return "test-" + strconv.FormatInt(shared.prefix.Add(1), 10)
}

// Database returns the number of a database of the shared server that no other test of the binary
// has, for programs without a key prefix.
func Database(t testing.TB) int {
	t.Helper()
	n := shared.database.Add(1)
	if n >= databases {
		t.Fatalf("redistest: all %d databases are taken", databases)
	}
	return int(n)
}

// Over runs the test on the embedded Redis and on a new database of a real Redis. With the build tag
// cluster it runs the test only on a Cluster.
func Over(t *testing.T, test func(t *testing.T, client redis.UniversalClient)) {
	t.Helper()
	if onCluster {
		t.Run("cluster", func(t *testing.T) {
			t.Parallel()
			test(t, cluster(t))
		})
		return
	}
	on := func(name string, connect func(t testing.TB) *redis.Client) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, connect(t))
		})
	}
	on("embedded", func(t testing.TB) *redis.Client { return Connect(t, &redis.Options{Addr: Miniredis(t).Addr()}) })
	on("redis", Own)
}

// One returns a client of a new database of a real Redis; without redis-server, of the embedded
// Redis. With the build tag cluster it returns a client of a Cluster.
func One(t *testing.T) redis.UniversalClient {
	t.Helper()
	if onCluster {
		return cluster(t)
	}
	if _, err := exec.LookPath(redisserver.Program()); err != nil {
		return Connect(t, &redis.Options{Addr: Miniredis(t).Addr()})
	}
	return Own(t)
}

// Own connects to a new database of the shared Redis.
func Own(t testing.TB) *redis.Client {
	t.Helper()
	o := Shared(t).Options()
	o.DB = Database(t)
	return Connect(t, o)
}

// Patience is how long a command may take on a busy machine.
const Patience = 20 * time.Second

// Connect connects with Patience as time-out and 100 connections, until the test ends.
func Connect(t testing.TB, o *redis.Options) *redis.Client {
	t.Helper()
	o.PoolSize, o.ContextTimeoutEnabled = 100, true
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = Patience, Patience, Patience, Patience
	client := redis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Another returns a second client of the same Redis or Cluster.
func Another(t *testing.T, client redis.UniversalClient) redis.UniversalClient {
	t.Helper()
	if cluster, ok := client.(*redis.ClusterClient); ok {
		return connectCluster(t, cluster.Options().Addrs)
	}
	o := *client.(*redis.Client).Options()
	return Connect(t, &o)
}

// Miniredis runs an in-process Redis until the test ends. It uses the real clock, but its keys
// expire only by FastForward.
func Miniredis(t testing.TB) *miniredis.Miniredis {
	t.Helper()
	return miniredis.RunT(t)
}
