//go:build linux

package deploy

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
)

// A composition is what a compose.yaml says. What it does not know is an error.
type composition struct {
	Name     string             `yaml:"name"`
	XRedis   service            `yaml:"x-redis"` // what services have in common
	Services map[string]service `yaml:"services"`
	Configs  map[string]source  `yaml:"configs"`
	Secrets  map[string]source  `yaml:"secrets"`
	Networks map[string]struct {
		IPAM struct {
			Config []struct {
				Subnet string `yaml:"subnet"`
			} `yaml:"config"`
		} `yaml:"ipam"`
	} `yaml:"networks"`
	Volumes map[string]struct {
		DriverOpts map[string]string `yaml:"driver_opts"`
	} `yaml:"volumes"`
}

type source struct {
	File string `yaml:"file"`
}

type service struct {
	Image   string   `yaml:"image"`
	Command []string `yaml:"command"`
	Build   struct {
		Context    string `yaml:"context"`
		Dockerfile string `yaml:"dockerfile"`
	} `yaml:"build"`
	DependsOn map[string]struct {
		Condition string `yaml:"condition"`
		Restart   bool   `yaml:"restart"`
	} `yaml:"depends_on"`
	NetworkMode string `yaml:"network_mode"`
	Configs     []struct {
		Source string `yaml:"source"`
		Target string `yaml:"target"`
	} `yaml:"configs"`
	Networks map[string]struct {
		IPv4Address string `yaml:"ipv4_address"`
	} `yaml:"networks"`
	Secrets         []string      `yaml:"secrets"`
	Ports           []string      `yaml:"ports"`
	Volumes         []string      `yaml:"volumes"`
	ReadOnly        bool          `yaml:"read_only"`
	Tmpfs           []string      `yaml:"tmpfs"`
	User            string        `yaml:"user"`
	CapDrop         []string      `yaml:"cap_drop"`
	SecurityOpt     []string      `yaml:"security_opt"`
	Restart         string        `yaml:"restart"`
	StopGracePeriod time.Duration `yaml:"stop_grace_period"`
	Healthcheck     struct {
		Test     []string      `yaml:"test"`
		Interval time.Duration `yaml:"interval"`
		Timeout  time.Duration `yaml:"timeout"`
		Retries  int           `yaml:"retries"`
	} `yaml:"healthcheck"`
}

func compose(t *testing.T, file string) composition {
	t.Helper()
	var c composition
	if err := yaml.UnmarshalWithOptions([]byte(read(t, file)), &c, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	return c
}

// confined checks that no service may do more than it needs, and that nobody reaches
// it from another machine.
func (c composition) confined(t *testing.T) {
	t.Helper()
	for name, s := range c.Services {
		if !s.ReadOnly || len(s.CapDrop) != 1 || s.CapDrop[0] != "ALL" || len(s.SecurityOpt) != 1 || s.SecurityOpt[0] != "no-new-privileges:true" {
			t.Errorf("%s may do too much: %+v", name, s)
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s: everyone reaches port %s", name, port)
			}
		}
	}
}

func TestCompose(t *testing.T) {
	t.Parallel()
	c := compose(t, "compose/compose.yaml")
	cfg := load(t, read(t, "compose/config.yaml"), "/run/secrets/redis-password")
	listens(t, cfg)
	pushpace, redis := c.Services["pushpace"], c.Services["redis"]
	drains(t, cfg, pushpace.StopGracePeriod)
	c.confined(t)
	for name, s := range c.Services {
		if s.Restart == "" {
			t.Errorf("%s stays away", name)
		}
		for _, secret := range s.Secrets {
			if c.Secrets[secret].File != secret {
				t.Errorf("%s: no secret %s", name, secret)
			}
		}
	}
	if pushpace.DependsOn["redis"].Condition != "service_healthy" || len(redis.Healthcheck.Test) != 2 || len(redis.Ports) != 0 {
		t.Errorf("%+v, %+v", pushpace.DependsOn, redis.Healthcheck)
	}
	if len(pushpace.Configs) != 1 || pushpace.Configs[0].Target != "/etc/pushpace/config.yaml" || c.Configs[pushpace.Configs[0].Source].File != "config.yaml" {
		t.Errorf("%+v", pushpace.Configs)
	}
	for _, file := range []string{pushpace.Build.Dockerfile, "go.mod"} {
		if _, err := os.Stat(filepath.Join("compose", pushpace.Build.Context, file)); err != nil {
			t.Error(err)
		}
	}
}

// Redis, started by the file's own line, wants the password, keeps its keys, and
// is well by the file's own check.
func TestComposedRedis(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("PUSHPACE_REQUIRE_REDIS") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	dir := t.TempDir()
	secret := filepath.Join(dir, "redis-password")
	if err := os.WriteFile(secret, []byte("open sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(redistest.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	s := compose(t, "compose/compose.yaml").Services["redis"]
	here := func(line string) string {
		line = strings.NewReplacer("$$", "$", "/run/secrets/redis-password", secret, "--dir /data", "--dir "+dir+" --bind 127.0.0.1 --port "+port).Replace(line)
		return strings.ReplaceAll(line, "redis-cli", "redis-cli -p "+port)
	}
	server := exec.Command("sh", "-c", here(s.Command[2]))
	var log bytes.Buffer
	server.Stdout, server.Stderr = &log, &log
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = syscall.Kill(-server.Process.Pid, syscall.SIGTERM)
		_ = server.Wait()
		if t.Failed() {
			t.Log(&log)
		}
	}()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port, Password: "open sesame"})
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for client.Ping(ctx).Err() != nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("it does not start")
		}
	}
	for setting, want := range map[string]string{"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction"} {
		if got := client.ConfigGet(ctx, setting).Val()[setting]; got != want {
			t.Errorf("%s is %q, want %q", setting, got, want)
		}
	}
	stranger := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
	defer stranger.Close()
	if err := stranger.Ping(ctx).Err(); err == nil {
		t.Error("it wants no password")
	}
	if out, err := exec.CommandContext(ctx, "sh", "-c", here(s.Healthcheck.Test[1])).CombinedOutput(); err != nil {
		t.Errorf("the health check fails: %v\n%s", err, out)
	}
}
