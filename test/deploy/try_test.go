//go:build e2e && linux

package deploy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/providers/webpush/webpushtest"
	"github.com/pushpace/pushpace/push"
)

const (
	tryFile    = "try/compose.yaml"
	trialToken = "trial-token-that-everyone-knows"
)

func TestTryComposeIsConfined(t *testing.T) {
	t.Parallel()
	c := compose(t, tryFile)
	confined(t, c)
	if names := slices.Sorted(maps.Keys(c.Services)); !slices.Equal(names, []string{"pushpace", "redis", "standins"}) {
		t.Fatalf("the services are %s", names)
	}
	production := compose(t, "compose/compose.yaml")
	redis, standins, pushpace := c.Services["redis"], c.Services["standins"], c.Services["pushpace"]
	if c.Name == production.Name || redis.Image != production.Services["redis"].Image || redis.User != production.Services["redis"].User {
		t.Errorf("%s, with %s as %s, is not beside %s", c.Name, redis.Image, redis.User, production.Name)
	}
	for _, s := range []types.ServiceConfig{standins, pushpace} {
		dockerfile := filepath.Join("try", s.Build.Context, s.Build.Dockerfile)
		if s.Image != "pushpace" || !reflect.DeepEqual(s.Build, production.Services["pushpace"].Build) || !strings.Contains(read(t, dockerfile), "\nUSER "+s.User+"\n") {
			t.Errorf("%+v is not the image of the repository", s)
		}
		configured(t, c, s)
	}
	for name, on := range pushpace.DependsOn {
		if on.Condition != types.ServiceConditionHealthy || len(c.Services[name].HealthCheck.Test) < 2 {
			t.Errorf("it does not wait for %s: %+v", name, on)
		}
	}
	// Docker publishes a port on the container that owns the network.
	if len(pushpace.DependsOn) != 2 || pushpace.NetworkMode != "service:standins" ||
		len(redis.Ports) != 0 || len(pushpace.Ports) != 0 || len(standins.Ports) != 1 || standins.Ports[0].Target != 8080 || standins.Ports[0].Published != "8080" {
		t.Errorf("the ports are %v, %v, %v", redis.Ports, standins.Ports, pushpace.Ports)
	}
	its, ours := standins.Volumes[0], pushpace.Volumes[0]
	if its.Source != "standins" || its.Target != "/run/standins" || its.ReadOnly || ours.Source != its.Source || ours.Target != its.Target || !ours.ReadOnly ||
		!strings.HasSuffix(c.Volumes["standins"].DriverOpts["o"], ",mode=0700,uid=65532,gid=65532") {
		t.Errorf("the credentials are in %+v, %+v, %+v", its, ours, c.Volumes)
	}
	if len(c.Secrets) != 0 || regexp.MustCompile(`(?i)password\w*:|secret\w*:|PRIVATE KEY`).MatchString(read(t, tryFile)+read(t, "try/config.yaml")) {
		t.Error("it has a secret")
	}

	cfg := load(t, read(t, "try/config.yaml"), "/run/standins/ca.pem", "/run/standins/AuthKey_STANDINKEY.p8", "/run/standins/fcm-credentials.json", "/run/standins/fcm-root-ca.pem", "/run/standins/vapid.pem", "/run/standins/webpush-root-ca.pem")
	hash := sha256.Sum256([]byte(trialToken))
	if h := cfg.HTTP; h.Listen != "0.0.0.0:8080" || len(h.Tokens) != 1 || h.Tokens[0].Name != "trial" || !strings.Contains(read(t, "try/config.yaml"), hex.EncodeToString(hash[:])) {
		t.Errorf("it listens on %s, for %+v", h.Listen, h.Tokens)
	}
	drains(t, cfg, grace(pushpace))
	shipped, err := config.Load("../config.yaml", nil)
	must(t, err)
	if !reflect.DeepEqual(cfg.Limits, shipped.Limits) {
		t.Errorf("the limits are %+v, and %+v in the shipped configuration", cfg.Limits, shipped.Limits)
	}
}

// A stage runs the services of the file as processes, at free addresses, because few machines that
// run tests have Docker.
type stage struct {
	services types.Services
	here     *strings.Replacer // translates addresses and paths of the file to this machine
	dir      string            // a process's working folder
	file     string            // path of the configuration
	api      string            // host:port
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{services: compose(t, tryFile).Services, dir: t.TempDir(), api: redistest.FreeAddress(t)}
	command := s.services["redis"].Command
	if len(command) < 3 || command[0] != "redis-server" || !slices.Equal(command[len(command)-2:], []string{"--dir", "/data"}) {
		t.Fatalf("Redis is started by %q", command)
	}
	redis := redistest.Start(t, redistest.Args(command[1:len(command)-2]...)).Addr()
	apns, fcm, webpush := redistest.FreeAddress(t), redistest.FreeAddress(t), redistest.FreeAddress(t)
	volume := t.TempDir()
	s.here = strings.NewReplacer(
		"redis:6379", redis, "redis-cli", "redis-cli -p "+portOf(t, redis),
		"127.0.0.1:8443", apns, "8443", portOf(t, apns), "127.0.0.1:8444", fcm, "8444", portOf(t, fcm), "127.0.0.1:8445", webpush, "8445", portOf(t, webpush),
		"0.0.0.0:8080", s.api, "127.0.0.1:8080", s.api,
		"/run/standins", volume, "/usr/local/bin/pushpace", program(t),
	)
	s.file = filepath.Join(t.TempDir(), "config.yaml")
	must(t, os.WriteFile(s.file, []byte(s.here.Replace(read(t, "try/config.yaml"))), 0o600))
	return s
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	must(t, err)
	return port
}

// command returns the command of the file's words, without this process's environment and without a
// temporary folder, as in a container.
func (s *stage) command(ctx context.Context, words ...string) *exec.Cmd {
	local := make([]string, len(words))
	for i, word := range words {
		local[i] = s.here.Replace(word)
	}
	cmd := exec.CommandContext(ctx, local[0], local[1:]...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PUSHPACE_CONFIG=" + s.file, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + filepath.Join(s.dir, "none")}
	return cmd
}

// healthy waits until the service passes its health check.
func (s *stage) healthy(t *testing.T, name string) {
	t.Helper()
	check := s.services[name].HealthCheck
	words := check.Test[1:]
	if check.Test[0] == "CMD-SHELL" {
		words = []string{"sh", "-c", check.Test[1]}
	}
	var out []byte
	var err error
	if !eventually.Within(eventually.Patience, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(*check.Timeout))
		defer cancel()
		out, err = s.command(ctx, words...).CombinedOutput()
		return err == nil
	}) {
		t.Fatalf("%s is not well: %v\n%s", name, err, out)
	}
}

// start starts the service. It returns its output and a function that stops it.
func (s *stage) start(t *testing.T, name string) (out *eventually.Log, stop func()) {
	t.Helper()
	cmd := s.command(context.Background(), append([]string{"/usr/local/bin/pushpace"}, s.services[name].Command...)...)
	out = new(eventually.Log)
	cmd.Stdout, cmd.Stderr = out, out
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		killing := time.AfterFunc(grace(s.services[name]), func() { _ = cmd.Process.Kill() })
		defer killing.Stop()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if t.Failed() {
			t.Logf("%s: %s", name, out)
		}
	})
	t.Cleanup(stop)
	return out, stop
}

// pushes returns the ledger entries among the lines, as PLATFORM NOTIFICATION.
func pushes(ledger *eventually.Log) []string {
	var all []string
	for line := range strings.Lines(ledger.String()) {
		var e standin.Entry
		if json.Unmarshal([]byte(line), &e) == nil {
			all = append(all, e.Platform+" "+e.Notification)
		}
	}
	slices.Sort(all)
	return all
}

// The commands in the comment at the top of the compose file send a push that the stand-ins receive,
// and sign in to the console.
func TestTryComposeSendsPush(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.healthy(t, "redis")
	ledger, stopStandIns := s.start(t, "standins")
	s.healthy(t, "standins")
	log, stopPushpace := s.start(t, "pushpace")
	jar, err := cookiejar.New(nil)
	must(t, err)
	browser := &http.Client{Jar: jar, Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	at := "http://" + s.api
	if !eventually.Within(eventually.Patience, func() bool {
		answer, err := browser.Get(at + "/readyz")
		if err == nil {
			answer.Body.Close()
		}
		return err == nil && answer.StatusCode == http.StatusOK
	}) {
		t.Fatalf("pushpace is not ready: %s", log)
	}

	// do makes a request, and returns the status, the target of a redirect and the body
	do := func(method, path, kind, token, body string) (int, string, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, at+path, strings.NewReader(body))
		must(t, err)
		request.Header.Set("Content-Type", kind)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := browser.Do(request)
		must(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		must(t, err)
		return answer.StatusCode, answer.Request.URL.Path, string(text)
	}
	laptop, err := json.Marshal(webpushtest.Subscription(webpushtest.Endpoint(push.WebPushMozilla, "laptop")))
	must(t, err)
	second := `{"id": "second", "app": "demo", "user": "bob", "title": "Hello", "targets": [{"platform": "apns", "token": "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"}, ` + string(laptop) + `]}`
	for token, want := range map[string]int{"": http.StatusUnauthorized, "a-guess": http.StatusUnauthorized, trialToken: http.StatusAccepted} {
		if status, _, text := do(http.MethodPost, "/v1/notifications", "application/json", token, second); status != want {
			t.Errorf("with the token %q: %d %s", token, status, text)
		}
	}
	curl := regexp.MustCompile(`(?m)^#   (curl .*)$`).FindStringSubmatch(read(t, tryFile))
	if curl == nil {
		t.Fatal("the file does not say how to send")
	}
	if out, err := s.command(t.Context(), "sh", "-c", curl[1]).CombinedOutput(); err != nil || !strings.Contains(string(out), `"first"`) {
		t.Errorf("%s: %v\n%s", curl[1], err, out)
	}
	if !eventually.Within(eventually.Patience, func() bool {
		return slices.Equal(pushes(ledger), []string{"apns second", "fcm first", "webpush second"})
	}) {
		t.Fatalf("not all pushes have come: %s", ledger)
	}

	if status, where, text := do(http.MethodGet, "/console/", "", "", ""); status != http.StatusOK || where != "/console/signin" || !strings.Contains(text, "Sign in") {
		t.Errorf("a stranger is led to %s: %d %s", where, status, text)
	}
	form := url.Values{"token": {trialToken}}.Encode()
	if status, where, text := do(http.MethodPost, "/console/signin", "application/x-www-form-urlencoded", "", form); status != http.StatusOK || where != "/console/" || !strings.Contains(text, "trial") {
		t.Errorf("signed in, and led to %s: %d %s", where, status, text)
	}
	stopPushpace()
	stopStandIns()
	// Containers cannot write here.
	if left, err := os.ReadDir(s.dir); err != nil || len(left) > 0 {
		t.Errorf("the processes leave %v in their folder, %v", left, err)
	}
}
