//go:build unix && e2e

package console

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/chromium"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers/standin"
)

// A site is the real program, with a Redis, stand-ins for the providers, and a browser.
type site struct {
	browser context.Context
	binary  string
	redis   *redistest.Server
	dir     string
	url     string
}

// newSite builds the program and has it serve.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{browser: chromium.Start(t), dir: t.TempDir()}
	s.binary = filepath.Join(s.dir, "pushpace")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", s.binary, "../../cmd/pushpace").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	s.redis = redistest.Start(t)
	s.url = s.serve(t, s.redis, configured, guarded)
	return s
}

// configured is a site's configuration but for its Redis and its tokens.
const configured = `
limits:
  default: {min_gap: 1ms, rates: [100/24h]}
  categories: {orders: {rates: [1/1h]}, security: {exempt: true}}
apps: {demo: {simulated: true}, shop: {simulated: true}}
`

// guarded are the tokens of an operator and a viewer.
var guarded = fmt.Sprintf("{name: ada, role: operator, sha256: %x}, {name: vic, role: viewer, sha256: %x}",
	sha256.Sum256([]byte(operatorToken)), sha256.Sum256([]byte(viewerToken)))

// serve runs stand-ins and workers with the console on that Redis until the test
// ends, and returns the console's address.
func (s *site) serve(t *testing.T, redis *redistest.Server, configured, tokens string) string {
	t.Helper()
	configuration := filepath.Join(t.TempDir(), "config.yaml")
	text := fmt.Sprintf("redis: {address: %q}\nhttp: {listen: 127.0.0.1:0, tokens: [%s]}\n%s", redis.Addr(), tokens, configured)
	if err := os.WriteFile(configuration, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	simulate := s.start(t, nil, "simulate", "--ledger", filepath.Join(s.dir, "ledger.jsonl"))
	settings := simulate.until(t, regexp.MustCompile(`(?s).*ROOT_CA_FILE=\S+\n.*ROOT_CA_FILE=\S+\n`))
	serve := s.start(t, strings.Fields(settings[0]), "serve", "--config", configuration)
	return serve.until(t, regexp.MustCompile(`(?s)msg=api url=(\S+).*msg=serving`))[1]
}

// A program is a running pushpace.
type program struct {
	mu     sync.Mutex
	output bytes.Buffer
}

func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.Write(b)
}

// start runs the program until the test ends.
func (s *site) start(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	p := new(program)
	cmd := exec.Command(s.binary, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), p, p
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(chromium.Patience, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		_ = cmd.Wait() // however it ends
	})
	return p
}

// until waits until the program has written that, and returns the parts.
func (p *program) until(t *testing.T, want *regexp.Regexp) (parts []string) {
	t.Helper()
	text := ""
	written := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		text = p.output.String()
		parts = want.FindStringSubmatch(text)
		return parts != nil
	}
	if !eventually.Within(chromium.Patience, written) {
		t.Fatalf("%s does not come:\n%s", want, text)
	}
	return parts
}

// client keeps no connection, which would outlive its test.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// ask makes a request of the API as the operator, and returns the answer.
func (s *site) ask(t *testing.T, method, path, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+operatorToken)
	req.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= 300 {
		t.Fatalf("%s %s: %d: %s, %v", method, path, answer.StatusCode, text, err)
	}
	return string(text)
}

// send hands over n notifications of the category for the user.
func (s *site) send(t *testing.T, n int, user, category string) {
	t.Helper()
	name := url.PathEscape(user)
	for i := range n {
		s.ask(t, "POST", "/v1/notifications", fmt.Sprintf(`{"id":"%s-%s-%d","app":"demo","user":%q,"category":%q,"title":"Hello","targets":[{"platform":"fcm","token":"%s-pixel"}]}`,
			name, category, i, user, category, name))
	}
}

// received are the pushes that the user's device has got, as the stand-ins tell.
func (s *site) received(t *testing.T, user string) (entries []standin.Entry) {
	t.Helper()
	f, err := os.Open(filepath.Join(s.dir, "ledger.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e standin.Entry
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Token == user+"-pixel" { // the last line may be half written
			entries = append(entries, e)
		}
	}
	return entries
}

// untilReceived waits until the user's device has got n pushes.
func (s *site) untilReceived(t *testing.T, user string, n int) {
	t.Helper()
	if !eventually.Within(chromium.Patience, func() bool { return len(s.received(t, user)) >= n }) {
		t.Fatalf("%s has got %d of %d", user, len(s.received(t, user)), n)
	}
}
