//go:build e2e && linux

package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/redis/go-redis/v9"
)

// compose loads the file as Docker Compose does, but does not resolve the paths in it.
func compose(t *testing.T, file string) *types.Project {
	t.Helper()
	details := types.ConfigDetails{WorkingDir: filepath.Dir(file), ConfigFiles: []types.ConfigFile{{Filename: file}}}
	c, err := loader.LoadWithContext(t.Context(), details, func(o *loader.Options) { o.ResolvePaths = false })
	must(t, err)
	return c
}

// grace returns how long Docker waits for a service to stop.
func grace(s types.ServiceConfig) time.Duration {
	if s.StopGracePeriod == nil {
		return 10 * time.Second
	}
	return time.Duration(*s.StopGracePeriod)
}

// confined checks that each service has only the rights it needs, and no port that other machines
// can reach.
func confined(t *testing.T, c *types.Project) {
	t.Helper()
	for name, s := range c.Services {
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) {
			t.Errorf("%s may do too much: %+v", name, s)
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s: everyone reaches port %s", name, port.Published)
			}
		}
	}
	for name, secret := range c.Secrets {
		if secret.File != name {
			t.Errorf("the secret %s is in %s", name, secret.File)
		}
	}
}

// configured checks that the service has config.yaml at the path that the image reads.
func configured(t *testing.T, c *types.Project, s types.ServiceConfig) {
	t.Helper()
	if len(s.Configs) != 1 || s.Configs[0].Target != "/etc/pushpace/config.yaml" || c.Configs[s.Configs[0].Source].File != "config.yaml" {
		t.Errorf("%+v, %+v", s.Configs, c.Configs)
	}
}

func TestCompose(t *testing.T) {
	t.Parallel()
	c := compose(t, "compose/compose.yaml")
	cfg := load(t, read(t, "compose/config.yaml"), "/run/secrets/redis-password")
	listens(t, cfg)
	pushpace, redis := c.Services["pushpace"], c.Services["redis"]
	drains(t, cfg, grace(pushpace))
	confined(t, c)
	configured(t, c, pushpace)
	for name, s := range c.Services {
		if s.Restart == "" {
			t.Errorf("%s stays away", name)
		}
	}
	if pushpace.DependsOn["redis"].Condition != types.ServiceConditionHealthy || len(redis.HealthCheck.Test) != 2 || len(redis.Ports) != 0 {
		t.Errorf("%+v, %+v", pushpace.DependsOn, redis.HealthCheck)
	}
	for _, file := range []string{pushpace.Build.Dockerfile, "go.mod"} {
		if _, err := os.Stat(filepath.Join("compose", pushpace.Build.Context, file)); err != nil {
			t.Error(err)
		}
	}
}

// Redis, started by the file's command, requires the password, persists its keys, and passes the
// file's health check.
func TestComposeFileRunsRedis(t *testing.T) {
	t.Parallel()
	here := newSextet(t)
	s := compose(t, "compose/compose.yaml").Services["redis"]
	here.serve(t, s.Command[2], "127.0.0.1")
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + here.port, Password: password})
	defer client.Close()
	eventually.Holds(t, "it starts", func() bool { return client.Ping(t.Context()).Err() == nil })
	for setting, want := range map[string]string{"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction"} {
		if got := client.ConfigGet(t.Context(), setting).Val()[setting]; got != want {
			t.Errorf("%s is %q, want %q", setting, got, want)
		}
	}
	stranger := redis.NewClient(&redis.Options{Addr: client.Options().Addr})
	defer stranger.Close()
	if err := stranger.Ping(t.Context()).Err(); err == nil {
		t.Error("it wants no password")
	}
	here.run(t, strings.ReplaceAll(s.HealthCheck.Test[1], "redis-cli", "redis-cli -p 6379"))
}
