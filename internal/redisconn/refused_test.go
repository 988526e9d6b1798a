package redisconn

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redistest"
)

// No failed reply reads as empty: if Redis refuses the connection, every command has the error,
// however it was sent.
func TestRefusedConnectionFailsEveryCommand(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]struct {
		command []any
		says    string
		trouble redisreply.Trouble
	}{
		"another password":   {[]any{"CONFIG", "SET", "requirepass", "changed"}, "NOAUTH", redisreply.Refused},
		"a user who may not": {[]any{"ACL", "SETUSER", "default", "-@all", "+acl|setuser"}, "NOPERM", redisreply.None},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			conn := open(t, settings(config.Single, s.Addr()))
			shared, stop := pipeline.Share(conn.Client, pipeline.Options{})
			t.Cleanup(stop)
			must(t, shared.Set(t.Context(), "k", "v", 0).Err())
			admin := s.Client(t)
			must(t, admin.Do(t.Context(), refuse.command...).Err())
			_ = admin.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err() // fails without the right; then Redis refuses open connections too
			everyCommandFails(t, conn.Client, refuse.says, refuse.trouble)
			everyCommandFails(t, shared, refuse.says, refuse.trouble)
		})
	}
}

// If a full Redis discards a read-only transaction, the error has the reason.
func TestDiscardedTransactionReportsCause(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	conn := open(t, settings(config.Single, s.Addr()))
	set(t, s, "maxmemory", "1")
	shared, stop := pipeline.Share(conn.Client, pipeline.Options{})
	t.Cleanup(stop)
	for _, c := range []redis.UniversalClient{conn.Client, shared} {
		tx := c.TxPipeline()
		get := tx.Get(t.Context(), "k")
		if _, err := tx.Exec(t.Context()); redisreply.Of(err) != redisreply.Full || redisreply.Of(get.Err()) != redisreply.Full {
			t.Errorf("%v; the command's own: %v", err, get.Err())
		}
	}
}

func everyCommandFails(t *testing.T, c redis.UniversalClient, says string, trouble redisreply.Trouble) {
	t.Helper()
	check := func(how string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), says) || says != "" && redisreply.Of(err) != trouble {
			t.Errorf("%s: %v, want %q (%q)", how, err, says, trouble)
		}
	}
	ctx := t.Context()
	commands := func(p redis.Cmdable) []redis.Cmder {
		return []redis.Cmder{
			p.Get(ctx, "k"), p.HGetAll(ctx, "h"), p.ZCard(ctx, "z"), p.XRange(ctx, "x", "-", "+"), p.Exists(ctx, "k"), p.Del(ctx, "k"),
			p.EvalSha(ctx, redis.NewScript("return 1").Hash(), nil),
		}
	}
	for _, cmd := range commands(c) {
		check("alone: "+cmd.Name(), cmd.Err())
	}
	for how, pipe := range map[string]redis.Pipeliner{"pipeline": c.Pipeline(), "transaction": c.TxPipeline()} {
		sent := commands(pipe)
		_, err := pipe.Exec(ctx)
		check(how, err)
		for _, cmd := range sent {
			check(how+": "+cmd.Name(), cmd.Err())
		}
	}
	check("a script", redis.NewScript("return 1").Run(ctx, c, nil).Err())
	check("ping", c.Ping(context.Background()).Err())
}

// A Cluster is in an error state if all its nodes are, or if a hash slot has no node.
func TestClusterTroubleNeedsAllNodes(t *testing.T) {
	t.Parallel()
	away := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	down, full := errors.New("CLUSTERDOWN The cluster is down"), errors.New("OOM command not allowed")
	for _, c := range []struct {
		a, b error
		want redisreply.Trouble
	}{
		{nil, nil, redisreply.None}, {nil, away, redisreply.None}, {down, nil, redisreply.None}, {full, away, redisreply.Full}, {away, down, redisreply.Broken},
		{nil, errors.New("CLUSTERDOWN Hash slot not served"), redisreply.Broken},
	} {
		if got, err := wholeTrouble(map[string]error{"a:1": c.a, "b:2": c.b}); got != c.want || (err == nil) != (got == redisreply.None) {
			t.Errorf("%v and %v: %q, %v; want %q", c.a, c.b, got, err, c.want)
		}
	}
}
