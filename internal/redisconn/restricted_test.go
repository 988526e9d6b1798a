package redisconn

import (
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redistest"
)

// renamed returns server arguments that disable commands.
func renamed(commands ...string) redistest.Option {
	var args []string
	for _, c := range commands {
		args = append(args, "--rename-command", c, "")
	}
	return redistest.Args(args...)
}

// forbid revokes the server's default user's right to commands.
func forbid(t *testing.T, s *redistest.Server, commands ...any) {
	t.Helper()
	rule := append([]any{"ACL", "SETUSER", "default"}, commands...)
	must(t, s.Client(t).Do(t.Context(), rule...).Err())
}

// works fails the test unless commands, pipelines and subscriptions of a connection work.
func works(t *testing.T, conn *Conn) {
	t.Helper()
	ctx := t.Context()
	must(t, conn.Client.Set(ctx, "{k}1", "v", time.Minute).Err())
	pipe := conn.Client.TxPipeline()
	get := pipe.Get(ctx, "{k}1")
	if _, err := pipe.Exec(ctx); err != nil || get.Val() != "v" {
		t.Errorf("a transaction: %q, %v", get.Val(), err)
	}
	heard := conn.Client.Subscribe(ctx, "channel")
	defer heard.Close()
	if _, err := heard.Receive(ctx); err != nil {
		t.Errorf("a subscription: %v", err)
	}
}

// If Redis refuses HELLO, the client sends the credentials by AUTH.
func TestOpenAuthenticatesWithoutHelloAndClient(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Password(secret), renamed("HELLO", "CLIENT"))
	cfg := settings(config.Single, s.Addr())
	cfg.Password, cfg.DB = secret, 2
	works(t, open(t, cfg))
	cfg.Password = "wrong"
	if conn, err := Open(t.Context(), patient(cfg), 1); err == nil || !strings.Contains(err.Error(), "credentials are refused") {
		t.Errorf("%v, %v", conn, err)
	}
}

func TestOpenClusterWorksWithoutOptionalCommands(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3, renamed("CLIENT", "PING"))
	for _, node := range nodes {
		forbid(t, node, "-info", "-command", "-config")
	}
	works(t, open(t, settings(config.Cluster, nodes[0].Addr())))
}

// Sentinels and their master refuse CLIENT.
func TestOpenSentinelWorksWithoutOptionalCommands(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	sentinel := redistest.StartSentinel(t, master)
	forbid(t, sentinel, "-client", "-hello", "-info")
	forbid(t, master, "-client")
	cfg := settings(config.Sentinel, sentinel.Addr())
	cfg.Address.Master = redistest.MasterName
	works(t, open(t, cfg))
}
