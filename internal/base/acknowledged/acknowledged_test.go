//go:build unix

package acknowledged_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/acknowledged"
	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/redistest"
)

// replicated starts a master with a replica, and returns a client with acknowledged writes.
func replicated(t *testing.T) (client *redis.Client, master, replica *redistest.Server) {
	t.Helper()
	t.Parallel()
	master = redistest.Start(t)
	host, port, err := net.SplitHostPort(master.Addr())
	must(t, err)
	replica = redistest.Start(t, redistest.Args("--replicaof", host, port))
	client = redis.NewClient(master.Options())
	t.Cleanup(func() { _ = client.Close() })
	must(t, acknowledged.Writes(client, 1))
	if !eventually.Within(eventually.Patience, func() bool { // a master sees a replica's link later than the replica
		n, err := client.Wait(t.Context(), 1, 10*time.Millisecond).Result()
		return err == nil && n == 1
	}) {
		t.Fatal("the master has no replica")
	}
	return client, master, replica
}

// waits returns how often the server ran WAIT.
func waits(t *testing.T, server *redistest.Server) int {
	t.Helper()
	stats, err := server.Client(t).InfoMap(t.Context(), "commandstats").Result()
	must(t, err)
	n := 0
	_, _ = fmt.Sscanf(stats["Commandstats"]["cmdstat_wait"], "calls=%d", &n) // nothing before the first WAIT
	return n
}

// The replica has each answered write. A pipeline waits once, a read never.
func TestWriteWaitsForReplica(t *testing.T) {
	client, master, replica := replicated(t)
	ctx := t.Context()
	must(t, client.Set(ctx, "a", 1, 0).Err())
	must(t, redis.NewScript(`return redis.call('INCR', KEYS[1])`).Run(ctx, client, []string{"a"}).Err())
	before := waits(t, master)
	pipe := client.Pipeline()
	pipe.Do(ctx, "multi") // as a claim is made
	pipe.Do(ctx, "incr", "a")
	pipe.Do(ctx, "exec")
	missing := pipe.Get(ctx, "nothing")
	pipe.Incr(ctx, "a")
	if _, err := pipe.Exec(ctx); !errors.Is(err, redis.Nil) || !errors.Is(missing.Err(), redis.Nil) {
		t.Errorf("a pipeline: %v, and of what is not there: %v", err, missing.Err())
	}
	if n := waits(t, master) - before; n != 1 {
		t.Errorf("a pipeline waits %d times", n)
	}
	if n, err := client.Get(ctx, "a").Int(); n != 4 || err != nil {
		t.Errorf("it is %d, %v", n, err)
	}
	if n := waits(t, master) - before; n != 1 {
		t.Errorf("a read waits %d times", n-1)
	}
	if n, err := replica.Client(t).Get(ctx, "a").Int(); n != 4 || err != nil {
		t.Errorf("on the replica it is %d, %v", n, err)
	}
	if _, err := client.TxPipelined(ctx, func(tx redis.Pipeliner) error { return tx.Incr(ctx, "a").Err() }); err != nil {
		t.Errorf("a transaction: %v", err)
	}
}

// A write that the replica does not have is no success, but reads still succeed.
func TestWriteWithoutReplicaIsUnacknowledged(t *testing.T) {
	client, _, replica := replicated(t)
	must(t, client.Set(t.Context(), "a", "text", 0).Err())
	replica.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	err := client.Set(ctx, "b", 1, 0).Err()
	if !errors.Is(err, acknowledged.ErrUnacknowledged) || redisreply.Of(err) != redisreply.NoReplicas {
		t.Fatalf("a write that no replica has: %v", err)
	}
	if redisreply.RefusesWrites(err) {
		t.Error("it counts as refused, and was made")
	}
	if n, err := client.Get(t.Context(), "b").Int(); n != 1 || err != nil {
		t.Errorf("read: %d, %v", n, err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	pipe := client.Pipeline()
	wrong, counted, missing := pipe.Incr(ctx, "a"), pipe.Incr(ctx, "b"), pipe.Get(ctx, "nothing")
	if _, err := pipe.Exec(ctx); !errors.Is(err, acknowledged.ErrUnacknowledged) {
		t.Errorf("of a pipeline: %v", err)
	}
	for name, err := range map[string]error{"made": counted.Err(), "read": missing.Err()} {
		if !errors.Is(err, acknowledged.ErrUnacknowledged) {
			t.Errorf("what was %s in it: %v", name, err)
		}
	}
	if err := wrong.Err(); err == nil || errors.Is(err, acknowledged.ErrUnacknowledged) {
		t.Errorf("one with an error of its own: %v", err)
	}
	replica.Resume(t)
	if err := client.Set(t.Context(), "b", 2, 0).Err(); err != nil {
		t.Errorf("once the replica is back: %v", err)
	}
}

// WATCH applies to the transaction's own connection.
func TestWatchAppliesToTransaction(t *testing.T) {
	client, master, _ := replicated(t)
	ctx := t.Context()
	err := client.Watch(ctx, func(tx *redis.Tx) error {
		if err := master.Client(t).Incr(ctx, "a").Err(); err != nil {
			return err
		}
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Incr(ctx, "a").Err() })
		return err
	}, "a")
	if !errors.Is(err, redis.TxFailedErr) {
		t.Errorf("a transaction on a key that has changed: %v", err)
	}
}

var (
	look   = acknowledged.Reader(redis.NewScript(`return redis.call('EXISTS', KEYS[1])`))
	either = acknowledged.Reader(redis.NewScript(`return ARGV[1] == 'look' and 1 or redis.call('INCR', KEYS[1])`), "look")
)

// The client does not wait for replicas after a read, nor after a script marked by Reader.
func TestReadsDoNotWaitForReplica(t *testing.T) {
	client, master, replica := replicated(t)
	ctx := t.Context()
	for _, script := range []*redis.Script{look, either} {
		must(t, script.Load(ctx, master.Client(t)).Err())
	}
	replica.Pause(t)
	short := func() context.Context {
		ctx, cancel := context.WithTimeout(ctx, 400*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	if err := look.Run(ctx, client, []string{"a"}).Err(); err != nil {
		t.Errorf("a script that reads: %v", err)
	}
	if err := either.Run(ctx, client, []string{"a"}, "look").Err(); err != nil {
		t.Errorf("one that reads by its argument: %v", err)
	}
	if err := either.Run(short(), client, []string{"a"}, "count").Err(); !errors.Is(err, acknowledged.ErrUnacknowledged) {
		t.Errorf("the same one when it writes: %v", err)
	}
}

// The answer of a script that writes nothing may depend on other connections' writes. The client
// writes a key, since from Redis 7.2 on WAIT covers only the connection's own writes.
func TestReadOnlyRunOfScriptIsAcknowledged(t *testing.T) {
	client, master, _ := replicated(t)
	ctx := t.Context()
	for key, beside := range map[string]string{"p:{tag}:a": "p:{tag}:ack", "plain": "plain:ack", "{}": "{}:ack"} {
		must(t, redis.NewScript(`return 1`).Run(ctx, client, []string{key}).Err())
		if left, err := master.Client(t).PTTL(ctx, beside).Result(); err != nil || left <= 0 || left > time.Second {
			t.Errorf("%s lasts %v: %v", beside, left, err)
		}
	}
}

// A write on the replica counts even if the client could not set the ack key.
func TestWriteCountsWithoutAckKey(t *testing.T) {
	_, master, _ := replicated(t)
	ctx := t.Context()
	must(t, master.Client(t).Do(ctx, "ACL", "SETUSER", "narrow", "on", ">secret", "~a", "+@all").Err())
	o := master.Options()
	o.Username, o.Password = "narrow", "secret"
	client := redis.NewClient(o)
	defer client.Close()
	must(t, acknowledged.Writes(client, 1))
	if err := client.Set(ctx, "a", 1, 0).Err(); err != nil {
		t.Errorf("alone: %v", err)
	}
	pipe := client.Pipeline()
	pipe.Incr(ctx, "a")
	pipe.Incr(ctx, "a")
	if _, err := pipe.Exec(ctx); err != nil {
		t.Errorf("in a pipeline: %v", err)
	}
}

// On a Cluster each master waits for its own replicas.
func TestClusterWritesAreAcknowledged(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	redistest.Replica(t, nodes[0], nodes)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}, ContextTimeoutEnabled: true, MaxRetries: -1})
	defer client.Close()
	must(t, acknowledged.Writes(client, 1))
	for i := range 50 {
		key := strings.Repeat("k", i+1)
		ctx, cancel := context.WithTimeout(t.Context(), redistest.Patience)
		replicated := redistest.NodeOf(t, nodes, key) == nodes[0]
		if !replicated {
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
		}
		err := client.Set(ctx, key, 1, 0).Err()
		cancel()
		if replicated && err != nil || !replicated && !errors.Is(err, acknowledged.ErrUnacknowledged) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s, with a replica %v: %v", key, replicated, err)
		}
	}
}

// A Cluster client does not repeat a write that was made but that no replica has.
func TestUnacknowledgedWriteIsMadeOnce(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 1)
	redistest.Replica(t, nodes[0], nodes).Pause(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}, ContextTimeoutEnabled: true, MaxRetries: -1, ReadTimeout: 3 * time.Second})
	defer client.Close()
	must(t, acknowledged.Writes(client, 1))
	if err := client.Incr(t.Context(), "a").Err(); !errors.Is(err, acknowledged.ErrUnacknowledged) {
		t.Errorf("a write that no replica has: %v", err)
	}
	if n, err := client.Get(t.Context(), "a").Int(); n != 1 || err != nil {
		t.Errorf("it is %d, %v", n, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
