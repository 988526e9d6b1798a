//go:build e2e && unix

package e2e

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/test/rig"
)

// The console is there with the API, and a browser is signed in until its token is no
// longer configured. Without it, its addresses are nobody's.
func TestServeConsole(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	const token = "ada-hunter2-0123456789"
	tokens := func(token string) string {
		return fmt.Sprintf("http:\n  tokens: [{name: ada, role: operator, sha256: %x}]\n", sha256.Sum256([]byte(token)))
	}
	s.Configure(t, "http:\n", tokens(token))
	p, at := s.ServeAPI(t, "--only", "api")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
	look := func(answer *http.Response, err error) (where, text string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.Request.URL.Path, string(body)
	}
	page, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if where, text := look(browser.Do(page)); where != "/" || !strings.Contains(text, "/openapi.json") {
		t.Errorf("who is no browser is led to %s: %s", where, text)
	}
	page.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	if where, _ := look(browser.Do(page)); where != "/console/signin" {
		t.Errorf("a browser at / is led to %s", where)
	}
	if where, _ := look(browser.Get(at + "/console")); where != "/console/signin" {
		t.Errorf("a stranger is led to %s", where)
	}
	if where, text := look(browser.PostForm(at+"/console/signin", url.Values{"token": {token}})); where != "/console/" || !strings.Contains(text, "ada") {
		t.Errorf("signed in, and led to %s: %s", where, text)
	}
	if _, text := look(browser.Get(at + "/v1/audit")); !strings.Contains(text, "Send a token") {
		t.Errorf("the API takes a cookie: %s", text)
	}
	s.Configure(t, "http:\n", tokens("another-0123456789"))
	p.HangUp(t)
	p.Says(t, 1, "the configuration is reloaded", "changed=http.tokens")
	if where, _ := look(browser.Get(at + "/console/")); where != "/console/signin" {
		t.Errorf("without the token led to %s", where)
	}
	s.Stop(t, p)
	if log := p.Stderr.String(); strings.Contains(log, "hunter2") || strings.Count(log, `msg="signed in" token=ada`) != 1 {
		t.Error(log)
	}

	s.Configure(t, "http:\n", tokens(token), "    enabled: true\n    # origin", "    enabled: false\n    # origin")
	p, at = s.ServeAPI(t, "--only", "api")
	for _, path := range []string{"/console", "/console/", "/console/signin"} {
		if status, text := rig.Ask(t, "", "GET", at+path, ""); status != http.StatusNotFound || !strings.Contains(text, "There is nothing at this path") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	s.Stop(t, p)
}

// A process of the API alone shows the workers' providers, without their credentials.
func TestConsoleOfAnAPIAlone(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	s.Simulate(t)
	worker := s.Serve(t)
	p, at := s.ServeAPI(t, "--only", "api")
	shows := func(path string, want ...string) {
		t.Helper()
		p.Until(t, path+" shows "+strings.Join(want, ", "), func() bool {
			status, text := rig.Ask(t, "", "GET", at+path, "")
			return status == http.StatusOK && !slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(text, w) })
		})
	}
	s.Send(t, rig.Done, rig.Notification("one", "ada", "orders", "apns", "00"))
	shows("/console/providers", "APNs of <bdi>demo</bdi>", "FCM of <bdi>demo</bdi>")
	shows("/console/", "Throughput: 1 sent, 0 put off, 0 failed")
	shows("/console/providers", `<bdi>ok</bdi> <span class="num">1</span>`)
	http.DefaultClient.CloseIdleConnections()
	s.Stop(t, p)
	s.Stop(t, worker)
}
