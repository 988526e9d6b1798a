package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers/standin"
)

const secret = "canary-4f1c"

func TestMain(m *testing.M) {
	redistest.Parallel()
	LogTo(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m, redistest.Dialing())
}

func settings(mode config.Mode, hosts ...string) config.Redis {
	return config.Redis{
		Address:     config.Address{Mode: mode, Hosts: hosts},
		Prefix:      "pushpace",
		DialTimeout: 300 * time.Millisecond,
		Timeout:     300 * time.Millisecond,
	}
}

// patient returns cfg with longer time-outs, so that on a busy machine connections succeed, or fail
// for the tested reason.
func patient(cfg config.Redis) config.Redis {
	cfg.DialTimeout, cfg.Timeout = 5*time.Second, 5*time.Second
	return cfg
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, cfg config.Redis) *Conn {
	t.Helper()
	conn, err := Open(t.Context(), patient(cfg), 4)
	must(t, err)
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return conn
}

func TestOpenSingleServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.AppendOnly(), redistest.Password(secret))
	cfg := settings(config.Single, s.Addr())
	cfg.Password = secret
	cfg.Strict = true
	cfg.DB = 3
	conn := open(t, cfg)
	if len(conn.Warnings) > 0 {
		t.Errorf("warnings: %q", conn.Warnings)
	}
	if err := conn.Client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Error(err)
	}
	opts := s.Options()
	opts.DB = 3
	direct := redis.NewClient(opts)
	defer direct.Close()
	if got, err := direct.Get(t.Context(), "k").Result(); err != nil || got != "v" {
		t.Errorf("in database 3: %q, %v", got, err)
	}
	if list, err := direct.ClientList(t.Context()).Result(); err != nil || !strings.Contains(list, " name=pushpace ") {
		t.Errorf("%v\n%s", err, list)
	}
}

func TestOpenCluster(t *testing.T) {
	t.Parallel()
	args := redistest.Args("--cluster-require-full-coverage", "no", "--cluster-node-timeout", "5000")
	nodes := redistest.StartCluster(t, 3, redistest.AppendOnly(), args)
	redistest.Replica(t, nodes[0], nodes, redistest.AppendOnly(), args)
	cfg := settings(config.Cluster, nodes[0].Addr())
	cfg.Strict = true // refuses only a Redis that may lose keys
	conn := open(t, cfg)
	for i := range 20 {
		must(t, conn.Client.Set(t.Context(), fmt.Sprint(i), i, 0).Err())
	}
	alone := 0 // without a replica
	for _, warning := range conn.Warnings {
		if strings.Contains(warning, ": has no replica, so that ") && !strings.HasPrefix(warning, "redis "+nodes[0].Addr()) {
			alone++
		}
	}
	if alone != 2 || len(conn.Warnings) != 2 {
		t.Errorf("warnings: %q", conn.Warnings)
	}
	_, err := Open(t.Context(), patient(settings(config.Single, nodes[0].Addr())), 1)
	if err == nil || !strings.Contains(err.Error(), "is a node of a Cluster") {
		t.Errorf("a node as a single server: %v", err)
	}
}

// A Cluster without one of its masters serves the keys of the other masters.
func TestOpenClusterWithoutMaster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3, redistest.AppendOnly(), redistest.Args("--cluster-require-full-coverage", "no"))
	cfg := settings(config.Cluster, nodes[0].Addr())
	nodes[1].Kill(t)
	var its []string
	for _, warning := range open(t, cfg).Warnings {
		if strings.HasPrefix(warning, "redis "+nodes[1].Addr()+": ") {
			its = append(its, warning)
		}
	}
	if len(its) != 1 || !strings.Contains(its[0], ": does not serve, and its notifications wait: ") {
		t.Errorf("warnings: %q", its)
	}
	for _, node := range []*redistest.Server{nodes[0], nodes[2]} {
		node.Kill(t)
	}
	if _, err := Open(t.Context(), patient(cfg), 1); err == nil {
		t.Error("a Cluster without a master")
	}
}

func TestOpenSentinel(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, redistest.AppendOnly(), redistest.Password("of-the-master"))
	sentinel := redistest.StartSentinel(t, master, redistest.Password("of-the-sentinel"))
	cfg := settings(config.Sentinel, sentinel.Addr())
	cfg.Address.Master = redistest.MasterName
	cfg.Password, cfg.SentinelPassword = "of-the-master", "of-the-sentinel"
	conn := open(t, cfg)
	if err := conn.Client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Error(err)
	}
	cfg.Address.Master = "another"
	_, err := Open(t.Context(), patient(cfg), 1)
	if err == nil || !strings.Contains(err.Error(), "no Sentinel knows the master") {
		t.Errorf("a master that does not exist: %v", err)
	}
}

// hold checks that each text contains the words of the same index.
func hold(t *testing.T, texts []string, words ...string) {
	t.Helper()
	if len(texts) != len(words) {
		t.Fatalf("got %q, want %q", texts, words)
	}
	for i, want := range words {
		if !strings.Contains(texts[i], want) {
			t.Errorf("got %q, want %q", texts[i], want)
		}
	}
}

func TestOpenWarnsOfLosses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		args      []string
		forbidden string
		want      []string
	}{
		{"snapshots", []string{"--save", "60 1"}, "", nil},
		{"both", []string{"--maxmemory-policy", "volatile-ttl"}, "", []string{"maxmemory-policy is volatile-ttl", "nothing is persisted"}},
		{"CONFIG forbidden", []string{"--rename-command", "CONFIG", ""}, "", nil},
		{"INFO forbidden", nil, "-info", []string{"the user may not call INFO"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, redistest.Args(tt.args...))
			if tt.forbidden != "" {
				forbid(t, s, tt.forbidden) // later, as starting the server needs INFO
			}
			cfg := settings(config.Single, s.Addr())
			conn := open(t, cfg)
			hold(t, conn.Warnings, tt.want...)
			for _, warning := range conn.Warnings {
				hold(t, []string{warning}, s.Addr())
			}
			cfg.Strict = true
			strict, err := Open(t.Context(), patient(cfg), 1)
			if err == nil {
				_ = strict.Close()
			}
			if (err == nil) != (tt.want == nil) {
				t.Errorf("strict: %v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("strict: %v; want %q", err, want)
				}
			}
		})
	}
}

// silent returns an address to which the kernel connects, and where no program answers.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

func TestOpenErrorHasRemedy(t *testing.T) {
	t.Parallel()
	guarded := redistest.Start(t, redistest.Password("right"))
	plain := redistest.Start(t)
	paused := redistest.Start(t)
	paused.Pause(t)
	sentinel := func(host string) config.Redis {
		cfg := settings(config.Sentinel, host)
		cfg.Address.Master = "main"
		return cfg
	}
	with := func(cfg config.Redis, change func(*config.Redis)) config.Redis {
		change(&cfg)
		return cfg
	}
	for _, tt := range []struct {
		name string
		cfg  config.Redis
		want string
	}{
		{"unreachable", patient(settings(config.Single, redistest.FreeAddress(t))), "cannot be reached"},
		{"unreachable Cluster", patient(settings(config.Cluster, redistest.FreeAddress(t), redistest.FreeAddress(t))), "cannot be reached"},
		{"unreachable Sentinel", patient(sentinel(redistest.FreeAddress(t))), "cannot be reached"},
		{"silent Cluster", settings(config.Cluster, silent(t), silent(t)), "does not answer"},
		{"silent Sentinel", sentinel(silent(t)), "does not answer"},
		{"paused", settings(config.Single, paused.Addr()), "does not answer"},
		{"wrong password", with(patient(settings(config.Single, guarded.Addr())), func(c *config.Redis) { c.Password = secret }), "credentials are refused"},
		{"no password", patient(settings(config.Single, guarded.Addr())), "credentials are refused"},
		{"not a Cluster", patient(settings(config.Cluster, plain.Addr())), "is no Cluster"},
		{"TLS to a server without", with(settings(config.Single, plain.Addr()), func(c *config.Redis) { c.TLS.Enabled = true }), "that tls is on"},
		{"TLS authority missing", with(settings(config.Single, plain.Addr()), func(c *config.Redis) {
			c.TLS = config.TLS{Enabled: true, CAFile: "no-such-file"}
		}), "tls.ca_file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			conn, err := Open(t.Context(), tt.cfg, 4)
			if err == nil {
				_ = conn.Close()
				t.Fatal("Open succeeds")
			}
			message := err.Error()
			if !strings.Contains(message, tt.want) || !strings.Contains(message, tt.cfg.Address.Hosts[0]) {
				t.Errorf("got %v; want %q and the address", err, tt.want)
			}
			if strings.Contains(message, secret) {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

// TestOpenEndsWithinLimit sets time-outs that exceed Open's limit.
func TestOpenEndsWithinLimit(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]config.Redis{
		"single":   settings(config.Single, silent(t)),
		"cluster":  settings(config.Cluster, silent(t), silent(t)),
		"sentinel": settings(config.Sentinel, silent(t), silent(t)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if cfg.Address.Mode == config.Sentinel {
				cfg.Address.Master = "main"
			}
			cfg.DialTimeout, cfg.Timeout = time.Minute, time.Minute
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			start := time.Now()
			conn, err := Open(ctx, cfg, 1)
			if err == nil {
				_ = conn.Close()
				t.Fatal("Open succeeds")
			}
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("took %v with 300 ms: %v", took, err)
			}
		})
	}
}

func TestOpenWithTLS(t *testing.T) {
	t.Parallel()
	certificate, ca, err := standin.NewCertificate()
	must(t, err)
	authority := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(authority, ca, 0o600))
	server := miniredis.NewMiniRedis()
	must(t, server.StartTLS(&tls.Config{Certificates: []tls.Certificate{certificate}}))
	t.Cleanup(server.Close)
	cfg := settings(config.Single, server.Addr())
	cfg.TLS = config.TLS{Enabled: true, CAFile: authority}
	conn := open(t, cfg)
	if err := conn.Client.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
	cfg = patient(cfg)
	for name, settings := range map[string]config.TLS{
		"unknown authority": {Enabled: true},
		"another name":      {Enabled: true, CAFile: authority, ServerName: "redis.example.com"},
	} {
		cfg.TLS = settings
		conn, err := Open(t.Context(), cfg, 1)
		if err == nil {
			_ = conn.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "TLS fails") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The embedded Redis uses the real clock, and other programs cannot read it.
func TestOpenEmbedded(t *testing.T) {
	t.Parallel()
	conn := open(t, settings(config.Embedded))
	c := conn.Client
	ctx := t.Context()
	if len(conn.Warnings) > 0 {
		t.Errorf("warnings: %q", conn.Warnings)
	}
	addr := c.(*redis.Client).Options().Addr
	stranger := redis.NewClient(&redis.Options{Addr: addr})
	defer stranger.Close()
	if err := stranger.Get(ctx, "k").Err(); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("without the password: %v", err)
	}
	if host, _, _ := net.SplitHostPort(addr); host != "127.0.0.1" {
		t.Errorf("it listens on %s", addr)
	}
	must(t, c.Set(ctx, "short", "v", 50*time.Millisecond).Err())
	must(t, c.Set(ctx, "long", "v", time.Hour).Err())
	eventually.Holds(t, "a key is gone after its time", func() bool { return errors.Is(c.Get(ctx, "short").Err(), redis.Nil) })
	if ttl, err := c.TTL(ctx, "long").Result(); err != nil || ttl > time.Hour || ttl < 50*time.Minute {
		t.Errorf("the other key has %v left, %v", ttl, err)
	}
	if now, err := c.Time(ctx).Result(); err != nil || time.Since(now).Abs() > time.Minute {
		t.Errorf("its clock says %v, %v", now, err)
	}
}
