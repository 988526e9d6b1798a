//go:build unix

package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/pushpace/pushpace"
	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/push"
)

// serveAPI starts serve with these arguments and the API, and answers where that is.
func (s *site) serveAPI(t *testing.T, args ...string) (*program, string) {
	t.Helper()
	with := s.setup
	with.env = append([]string{"PUSHPACE_HTTP__LISTEN=127.0.0.1:0"}, with.env...)
	p := start(t, with, append([]string{"serve"}, args...)...)
	p.until(t, "serving", func() bool { return strings.Contains(p.stderr.String(), "msg=serving") })
	m := regexp.MustCompile(`msg=api url=(\S+)`).FindStringSubmatch(p.stderr.String())
	if m == nil {
		return p, ""
	}
	return p, m[1]
}

// ask makes a request, and returns the status and the body.
func ask(t *testing.T, token, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// What comes over HTTP is delivered, and its state can be asked for.
func TestServeAPI(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.simulate(t)
	p, url := s.serveAPI(t)
	if status, text := ask(t, "", "POST", url+"/v1/notifications", notification("one", "ada", "orders", "apns", "00")); status != http.StatusAccepted {
		t.Fatalf("%d: %s", status, text)
	}
	many := "[" + notification("two", "ben", "orders", "fcm", "ben-pixel") + "," + notification("one", "ada", "orders", "apns", "00") + "]"
	if status, text := ask(t, "", "POST", url+"/v1/notifications", many); status != http.StatusAccepted || text != `{"results":[{"id":"two","status":202},{"id":"one","status":200}]}` {
		t.Fatalf("%d: %s", status, text)
	}
	p.until(t, "both delivered", func() bool {
		_, one := ask(t, "", "GET", url+"/v1/notifications/one", "")
		_, two := ask(t, "", "GET", url+"/v1/notifications/two", "")
		return strings.Contains(one, `"state":"delivered"`) && strings.Contains(two, `"state":"delivered"`)
	})
	http.DefaultClient.CloseIdleConnections()
	s.stop(t, p)
	if n := len(s.ledger(t)); n != 2 {
		t.Errorf("%d pushes", n)
	}
}

// One process answers the API and another one works; neither does both. The API
// needs no provider's credentials, and its log has no token.
func TestServeOnly(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.simulate(t)
	hashed := func(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }
	const producer, viewer = "producer-hunter2", "viewer-hunter2"
	tokens := "http:\n  tokens:\n    - {name: shop, role: producer, sha256: " + hashed(producer) + "}\n" +
		"    - {name: wall, role: viewer, sha256: " + hashed(viewer) + "}\n"
	s.dir = write(t, "config.yaml", strings.Replace(string(pushpace.ConfigYAML), "http:\n", tokens, 1))
	api, url := s.serveAPI(t, "--only", "api")
	if status, text := ask(t, producer, "POST", url+"/v1/notifications", notification("one", "ada", "chat", "apns", "00")); status != http.StatusAccepted {
		t.Fatalf("%d: %s", status, text)
	}
	for _, c := range []struct {
		token, method, path string
		want                int
	}{
		{"", "GET", "/v1/audit", http.StatusUnauthorized}, {"wrong-hunter2", "GET", "/v1/audit", http.StatusUnauthorized},
		{producer, "GET", "/v1/audit", http.StatusForbidden}, {viewer, "DELETE", "/v1/notifications/one", http.StatusForbidden},
	} {
		if status, text := ask(t, c.token, c.method, url+c.path, ""); status != c.want {
			t.Errorf("%s %s: %d: %s", c.method, c.path, status, text)
		}
	}
	servers, err := asynq.NewInspectorFromRedisClient(s.client).Servers()
	if err != nil || len(servers) != 0 {
		t.Errorf("the API works too: %+v, %v", servers, err)
	}
	worker, nowhere := s.serveAPI(t, "--only", "worker")
	if nowhere != "" {
		t.Errorf("the worker answers at %s", nowhere)
	}
	worker.until(t, "delivered", func() bool {
		_, text := ask(t, viewer, "GET", url+"/v1/notifications/one", "")
		return strings.Contains(text, `"state":"delivered"`)
	})
	s.stop(t, api, worker)
	if log := api.stderr.String(); strings.Contains(log, "hunter2") || strings.Count(log, "a request failed") != 4 {
		t.Errorf("%s", log)
	}
	counts, err := ledger.NewRecords(s.client, "", 0).Counts(t.Context())
	if err != nil || counts.Accepted != 1 || counts.Ended[push.Delivered] != 1 {
		t.Errorf("%+v, %v", counts, err)
	}
}

func TestServeOnlyWronglyUsed(t *testing.T) {
	t.Parallel()
	dir := write(t, "config.yaml", string(pushpace.ConfigYAML))
	for _, c := range []struct {
		env  []string
		args []string
		want string
	}{
		{nil, []string{"--only", "console"}, "--only: want worker or api"},
		{nil, []string{"--only", "api"}, "config.yaml: http.listen: "},
		{[]string{"PUSHPACE_HTTP__LISTEN=0.0.0.0:0"}, nil, "PUSHPACE_HTTP__LISTEN: http.listen: is not the loopback"},
	} {
		p := start(t, setup{dir: dir, env: c.env}, append([]string{"serve"}, c.args...)...)
		if got := p.wait(t, 10*time.Second); got != exitUsage || !strings.Contains(p.stderr.String(), c.want) {
			t.Errorf("%v: exit status %d, %q; want %q", c.args, got, p.stderr.String(), c.want)
		}
	}
}

// A request that is under way when serve is told to stop still ends.
func TestServeAPIDrains(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p, url := s.serveAPI(t, "--only", "api")
	in, out := io.Pipe()
	asked := make(chan struct{}) // for the body: the request has arrived
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(asked) }})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/notifications", in)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Expect", "100-continue")
	answered := make(chan string, 1)
	go func() {
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: time.Minute}}
		answer, err := client.Do(req)
		if err != nil {
			answered <- err.Error()
			return
		}
		defer answer.Body.Close()
		var got struct{ ID string }
		_ = json.NewDecoder(answer.Body).Decode(&got)
		answered <- got.ID
	}()
	body := notification("one", "ada", "chat", "apns", "00")
	select {
	case <-asked:
	case got := <-answered:
		t.Fatalf("answered %q before the body is sent", got)
	}
	if _, err := io.WriteString(out, body[:10]); err != nil { // it is being sent
		t.Fatal(err)
	}
	p.terminate(t)
	p.until(t, "stopping", func() bool { return strings.Contains(p.stderr.String(), "stopping") })
	if _, err := io.WriteString(out, body[10:]); err != nil {
		t.Fatal(err)
	}
	_ = out.Close()
	if got := <-answered; got != "one" {
		t.Errorf("answered %q", got)
	}
	if got := p.wait(t, 20*time.Second); got != exitDone {
		t.Errorf("exit status %d: %s", got, &p.stderr)
	}
}
