//go:build e2e && linux

// Package deploy checks the files in deploy/ against the program and its configuration.
package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/config"
)

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	return string(text)
}

// load loads a configuration whose secrets have paths that do not exist on this machine.
func load(t *testing.T, text string, secrets ...string) *config.Config {
	t.Helper()
	dir := t.TempDir()
	for _, path := range secrets {
		if !strings.Contains(text, path) {
			t.Errorf("the configuration names no %s", path)
		}
		file := filepath.Join(dir, filepath.Base(path))
		text = strings.ReplaceAll(text, path, file)
		must(t, os.WriteFile(file, []byte("a secret"), 0o600))
	}
	c, err := config.Parse(filepath.Join(dir, "config.yaml"), []byte(text), nil)
	must(t, err)
	return c
}

// built is the program, built once for all tests.
var built struct {
	once sync.Once
	dir  string
	err  error
}

// TestMain runs all tests in the folder deploy.
func TestMain(m *testing.M) {
	if err := os.Chdir("../../deploy"); err != nil {
		panic(err)
	}
	status := m.Run()
	_ = os.RemoveAll(built.dir)
	os.Exit(status)
}

// program builds the program, with asImage by the Dockerfile's command.
func program(t *testing.T) (binary string) {
	t.Helper()
	line := []string{"", "go build -o /out/pushpace ./cmd/pushpace"}
	if asImage {
		if line = regexp.MustCompile(`(?m)^RUN (CGO_ENABLED=0 .*go build .*)$`).FindStringSubmatch(read(t, "Dockerfile")); line == nil {
			t.Fatal("the Dockerfile builds nothing")
		}
	}
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "pushpace-deploy-"); built.err != nil {
			return
		}
		cmd := exec.Command("sh", "-c", strings.ReplaceAll(line[1], "/out", built.dir))
		cmd.Dir = ".."
		cmd.Env = append(os.Environ(), "TARGETOS=linux", "TARGETARCH=amd64", "GOFLAGS=-buildvcs=false")
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%s: %w\n%s", line[1], err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "pushpace")
}

// The image runs an existing command of the program, and the program has the flags that the image,
// the unit and the chart use.
func TestImageMatchesProgram(t *testing.T) {
	t.Parallel()
	text := read(t, "Dockerfile")
	for _, want := range []string{
		"RUN CGO_ENABLED=0 ", "COPY --from=build /out/pushpace /usr/local/bin/pushpace\n", `ENTRYPOINT ["/usr/local/bin/pushpace"]`, `CMD ["serve"]`,
		"USER 65532:65532\n", "FROM gcr.io/distroless/static-debian12:nonroot AS base\n", "FROM base AS release\n", "COPY $TARGETPLATFORM/pushpace /usr/local/bin/pushpace\n", "FROM base\nCOPY --from", "ENV PUSHPACE_CONFIG=/etc/pushpace/config.yaml\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the Dockerfile has no %s", want)
		}
	}
	goMod := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "../go.mod"))
	if !strings.Contains(text, "golang:"+goMod[1]+"-") {
		t.Errorf("the image is not built with Go %s", goMod[1])
	}
	help, err := exec.Command(program(t), "serve", "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("serve --help: %v\n%s", err, help)
	}
	for _, flag := range []string{"--config", "--only"} {
		if !strings.Contains(string(help), flag) {
			t.Errorf("serve has no %s", flag)
		}
	}
}

// drains checks that the grace period exceeds the program's shutdown time.
func drains(t *testing.T, c *config.Config, grace time.Duration) {
	t.Helper()
	const margin = 5 * time.Second
	if grace < c.Worker.ShutdownTimeout+margin {
		t.Errorf("the program is killed after %s, but a shutdown may take %s", grace, c.Worker.ShutdownTimeout)
	}
}

// listens checks the addresses of the API and the metrics.
func listens(t *testing.T, c *config.Config) {
	t.Helper()
	if c.HTTP.Listen != "0.0.0.0:8080" || c.Telemetry.Listen != "0.0.0.0:9090" || len(c.HTTP.Tokens) == 0 {
		t.Errorf("it listens on %s and %s, for %d tokens", c.HTTP.Listen, c.Telemetry.Listen, len(c.HTTP.Tokens))
	}
}

func TestSystemdUnit(t *testing.T) {
	t.Parallel()
	text := read(t, "systemd/pushpace.service")
	values := func(key string) []string {
		var all []string
		for _, m := range regexp.MustCompile(`(?m)^`+key+`=(.*)$`).FindAllStringSubmatch(text, -1) {
			all = append(all, m[1])
		}
		return all
	}
	for key, want := range map[string]string{
		"ExecStart": "/usr/local/bin/pushpace serve --config /etc/pushpace/config.yaml", "ExecReload": "/bin/kill -HUP $MAINPID",
		"DynamicUser": "yes", "RestartPreventExitStatus": "2", "KillMode": "mixed",
		"LoadCredential": "redis-password:/etc/pushpace/redis-password", "Environment": "PUSHPACE_REDIS__PASSWORD_FILE=%d/redis-password",
	} {
		if got := values(key); len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	secret := filepath.Join(t.TempDir(), "redis-password")
	must(t, os.WriteFile(secret, []byte("a secret"), 0o600))
	variable := strings.ReplaceAll(values("Environment")[0], "%d/redis-password", secret)
	c, err := config.Load("../config.yaml", []string{"PUSHPACE_REDIS__ADDRESS=127.0.0.1:6379", variable})
	if err != nil || c.Redis.Password != "a secret" {
		t.Fatalf("%v, %v", c, err)
	}
	grace, err := time.ParseDuration(values("TimeoutStopSec")[0] + "s")
	must(t, err)
	drains(t, c, grace)
}

func TestSystemdVerifiesUnit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skipf("CANNOT CHECK: systemd's verdict on the unit: %v", err)
	}
	dir := t.TempDir()
	// verify requires that the unit's program exists
	text := strings.Replace(read(t, "systemd/pushpace.service"), "/usr/local/bin/pushpace serve", "/bin/true serve", 1)
	file := filepath.Join(dir, "pushpace.service")
	must(t, os.WriteFile(file, []byte(text), 0o600))
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", file).CombinedOutput()
	if err != nil || strings.Contains(string(out), "pushpace.service") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	// 0 is sealed, 10 is open
	out, err = exec.Command("systemd-analyze", "security", "--offline=yes", "--threshold=20", file).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, lastLine(string(out)))
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return fmt.Sprintf("… %s", lines[len(lines)-1])
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
