//go:build e2e && linux

package deploy

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/redistest"
)

const (
	clusterFile = "cluster/compose.yaml"
	servers     = 6
)

func TestClusterCompose(t *testing.T) {
	t.Parallel()
	c, one := compose(t, clusterFile), compose(t, "compose/compose.yaml")
	cfg := load(t, read(t, "cluster/config.yaml"), "/run/secrets/redis-password")
	pushpace, redis := c.Services["pushpace"], one.Services["redis"]
	listens(t, cfg)
	drains(t, cfg, grace(pushpace))
	confined(t, c)
	if !cfg.Redis.Strict || cfg.Redis.Address.Mode != config.Cluster || len(c.Services) != servers+2 || c.Name == one.Name || !reflect.DeepEqual(pushpace.Build, one.Services["pushpace"].Build) {
		t.Errorf("%s has %d services, and Redis is %+v", c.Name, len(c.Services), cfg.Redis.Address)
	}
	for name, s := range c.Services {
		if s.Restart == "" || len(s.Secrets) != 1 || len(s.Networks) != 1 {
			t.Errorf("%s: %+v", name, s)
		}
		if name == "pushpace" || name == "create" {
			continue
		}
		if s.Image != redis.Image || s.User != redis.User || len(s.Ports) != 0 || len(s.Volumes) != 1 || s.Volumes[0].Source != name || s.Volumes[0].Target != "/data" {
			t.Errorf("%s: %+v", name, s)
		}
		if on := c.Services["create"].DependsOn[name]; on.Condition != types.ServiceConditionHealthy || len(s.HealthCheck.Test) != 2 {
			t.Errorf("the Cluster is made before %s is up: %+v", name, on)
		}
	}
	for _, host := range cfg.Redis.Address.Hosts {
		if !slices.ContainsFunc(slices.Collect(maps.Values(c.Services)), func(s types.ServiceConfig) bool { return at(s)+":6379" == host }) {
			t.Errorf("pushpace looks for %s", host)
		}
	}
	if on := pushpace.DependsOn["create"]; on.Condition != types.ServiceConditionCompletedSuccessfully {
		t.Errorf("pushpace starts before the Cluster is made: %+v", on)
	}
	configured(t, c, pushpace)
}

// at returns the service's address in the Cluster's network; "" without a fixed address.
func at(s types.ServiceConfig) string {
	if network := s.Networks["cluster"]; network != nil {
		return network.Ipv4Address
	}
	return ""
}

// A sextet runs a compose file's Redis servers, at most six, as processes. Each has its own loopback
// address; all have the same port.
type sextet struct{ secret, port string }

// limit bounds each step. A step takes seconds, on a busy machine minutes.
const limit = 3 * time.Minute

const password = "open sesame"

func newSextet(t *testing.T) *sextet {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("PUSHPACE_REQUIRE_REDIS") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	s := &sextet{secret: filepath.Join(t.TempDir(), "redis-password")}
	for port := 0; port == 0 || port > 55_000; { // the bus has this port plus 10,000
		s.port = portOf(t, redistest.FreeAddress(t))
		port, _ = strconv.Atoi(s.port)
	}
	must(t, os.WriteFile(s.secret, []byte(password+"\n"), 0o600))
	return s
}

// here translates a file's text from a container to this machine.
func (s *sextet) here(text string) string {
	return strings.NewReplacer("/run/secrets/redis-password", s.secret, "172.30.77.", "127.30.77.", "6379", s.port).Replace(text)
}

// serve runs a server by its command, at the address, until the test ends.
func (s *sextet) serve(t *testing.T, command, address string) {
	t.Helper()
	line := strings.Replace(s.here(command), "--dir /data", "--dir "+t.TempDir()+" --save '' --bind "+address+" --bind-source-addr "+address+" --port "+s.port, 1)
	server := exec.Command("sh", "-c", line)
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var log bytes.Buffer
	server.Stdout, server.Stderr = &log, &log
	must(t, server.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-server.Process.Pid, syscall.SIGKILL)
		_ = server.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", address, &log)
		}
	})
}

// run runs a command of the file until it succeeds, as Docker restarts its container.
func (s *sextet) run(t *testing.T, command string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		cmd := exec.CommandContext(ctx, "sh", "-c", s.here(command))
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		out, err := cmd.CombinedOutput()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
}

// well waits until the Cluster is healthy for pushpace and each master has a replica.
func (s *sextet) well(t *testing.T, cfg config.Redis) {
	t.Helper()
	cfg.Password, cfg.Address.Hosts = password, slices.Clone(cfg.Address.Hosts)
	for i := range cfg.Address.Hosts {
		cfg.Address.Hosts[i] = s.here(cfg.Address.Hosts[i])
	}
	var warnings []string
	var nodes []redisconn.Node
	var err error
	if !eventually.Within(limit, func() bool {
		var conn *redisconn.Conn
		if conn, err = redisconn.Open(t.Context(), cfg, 4); err != nil {
			return false
		}
		defer conn.Close()
		warnings = conn.Warnings
		nodes, err = redisconn.ReadNodes(t.Context(), conn.Client)
		return err == nil && len(warnings) == 0 && len(nodes) == servers/2 && !slices.ContainsFunc(nodes, func(n redisconn.Node) bool { return n.Replicas == nil || *n.Replicas != 1 || !n.AppendOnly })
	}) {
		t.Fatalf("%q, %+v, %v", warnings, nodes, err)
	}
	cfg.Password = ""
	if conn, err := redisconn.Open(t.Context(), cfg, 1); err == nil {
		_ = conn.Close()
		t.Error("it wants no password")
	}
}

// The compose file's own command makes its servers a Cluster, also if an earlier run of the command
// was interrupted before the masters had replicas. A further run does nothing.
func TestComposeFileMakesCluster(t *testing.T) {
	t.Parallel()
	s, c := newSextet(t), compose(t, clusterFile)
	for i := range servers {
		server := c.Services[fmt.Sprint("redis-", i+1)]
		s.serve(t, server.Command[2], s.here(at(server)))
	}
	cfg := load(t, read(t, "cluster/config.yaml"), "/run/secrets/redis-password").Redis
	create := c.Services["create"].Command[2]
	before, _, found := strings.Cut(create, "for i in 14 15 16; do")
	if !found {
		t.Fatal("the command gives the masters no replicas")
	}
	s.run(t, before)
	for range 2 {
		s.run(t, create)
		s.well(t, cfg)
	}
}
