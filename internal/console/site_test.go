//go:build unix && e2e

package console

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/test/chromium"
	programs "github.com/pushpace/pushpace/test/rig"
)

// A site is the real program, with a Redis, stand-ins for the providers, and a browser.
type site struct {
	programs.Site
	browser context.Context
	url     string
}

// newSite builds the program and starts it.
func newSite(t *testing.T) *site {
	t.Helper()
	browser, binary := chromium.Start(t), filepath.Join(t.TempDir(), "pushpace")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", binary, "../../cmd/pushpace").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections) // idle connections would outlive the test
	return serve(t, browser, binary, redistest.Start(t), guarded)
}

// guarded are the tokens of an operator and a viewer.
var guarded = fmt.Sprintf("{name: ada, role: operator, sha256: %x}, {name: vic, role: viewer, sha256: %x}",
	sha256.Sum256([]byte(operatorToken)), sha256.Sum256([]byte(viewerToken)))

// serve runs stand-ins, and workers with the console on that Redis, until the test ends.
func serve(t *testing.T, browser context.Context, binary string, redis *redistest.Server, tokens string) *site {
	t.Helper()
	s := &site{browser: browser}
	s.Program = binary
	s.Dir = programs.Write(t, "config.yaml", fmt.Sprintf(`
redis: {address: %q}
http: {listen: 127.0.0.1:0, tokens: [%s]}
limits:
  default: {min_gap: 1ms, rates: [100/24h]}
  categories: {orders: {rates: [1/1h]}, security: {exempt: true}}
apps: {demo: {simulated: true}, shop: {simulated: true}}
`, redis.Addr(), tokens))
	s.Simulate(t)
	_, s.url = s.ServeAPI(t)
	return s
}

// ask makes a request of the API as the operator, and returns the answer.
func (s *site) ask(t *testing.T, method, path, body string) string {
	t.Helper()
	status, text := programs.Ask(t, operatorToken, method, s.url+path, body)
	if status >= 300 {
		t.Fatalf("%s %s: %d: %s", method, path, status, text)
	}
	return text
}

// send sends n notifications of the category to the user.
func (s *site) send(t *testing.T, n int, user, category string) {
	t.Helper()
	name := url.PathEscape(user)
	for i := range n {
		s.ask(t, "POST", "/v1/notifications", programs.Notification(fmt.Sprintf("%s-%s-%d", name, category, i), user, category, "fcm", name+"-pixel"))
	}
}

// received returns the pushes that the user's device has received.
func (s *site) received(t *testing.T, user string) []standin.Entry {
	t.Helper()
	return slices.DeleteFunc(s.Ledger(t), func(e standin.Entry) bool { return e.Token != user+"-pixel" })
}

// untilReceived waits until the user's device has received n pushes.
func (s *site) untilReceived(t *testing.T, user string, n int) {
	t.Helper()
	if !eventually.Within(chromium.Patience, func() bool { return len(s.received(t, user)) >= n }) {
		t.Fatalf("%s has got %d of %d", user, len(s.received(t, user)), n)
	}
}
