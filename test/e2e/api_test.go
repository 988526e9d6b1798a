//go:build e2e && unix

package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/pushpace/pushpace"
	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/rig"
)

// What comes over HTTP is delivered, and its state can be asked for.
func TestServeAPI(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	s.Simulate(t)
	p, url := s.ServeAPI(t)
	if status, text := rig.Ask(t, "", "POST", url+"/v1/notifications", rig.Notification("one", "ada", "orders", "apns", "00")); status != http.StatusAccepted {
		t.Fatalf("%d: %s", status, text)
	}
	many := "[" + rig.Notification("two", "ben", "orders", "fcm", "ben-pixel") + "," + rig.Notification("one", "ada", "orders", "apns", "00") + "]"
	if status, text := rig.Ask(t, "", "POST", url+"/v1/notifications", many); status != http.StatusAccepted || text != `{"results":[{"id":"two","status":202},{"id":"one","status":200}]}` {
		t.Fatalf("%d: %s", status, text)
	}
	p.Until(t, "both delivered", func() bool {
		_, one := rig.Ask(t, "", "GET", url+"/v1/notifications/one", "")
		_, two := rig.Ask(t, "", "GET", url+"/v1/notifications/two", "")
		return strings.Contains(one, `"state":"delivered"`) && strings.Contains(two, `"state":"delivered"`)
	})
	http.DefaultClient.CloseIdleConnections()
	s.Stop(t, p)
	if n := len(s.Ledger(t)); n != 2 {
		t.Errorf("%d pushes", n)
	}
}

// One process answers the API and another one works; neither does both. The API
// needs no provider's credentials, and its log has no token.
func TestServeOnly(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	s.Simulate(t)
	hashed := func(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }
	const producer, viewer = "producer-hunter2", "viewer-hunter2"
	tokens := "http:\n  tokens:\n    - {name: shop, role: producer, sha256: " + hashed(producer) + "}\n" +
		"    - {name: wall, role: viewer, sha256: " + hashed(viewer) + "}\n"
	s.Dir = rig.Write(t, "config.yaml", strings.Replace(string(pushpace.ConfigYAML), "http:\n", tokens, 1))
	api, url := s.ServeAPI(t, "--only", "api")
	if status, text := rig.Ask(t, producer, "POST", url+"/v1/notifications", rig.Notification("one", "ada", "chat", "apns", "00")); status != http.StatusAccepted {
		t.Fatalf("%d: %s", status, text)
	}
	for _, c := range []struct {
		token, method, path string
		want                int
	}{
		{"", "GET", "/v1/audit", http.StatusUnauthorized}, {"wrong-hunter2", "GET", "/v1/audit", http.StatusUnauthorized},
		{producer, "GET", "/v1/audit", http.StatusForbidden}, {viewer, "DELETE", "/v1/notifications/one", http.StatusForbidden},
	} {
		if status, text := rig.Ask(t, c.token, c.method, url+c.path, ""); status != c.want {
			t.Errorf("%s %s: %d: %s", c.method, c.path, status, text)
		}
	}
	servers, err := asynq.NewInspectorFromRedisClient(s.Client).Servers()
	if err != nil || len(servers) != 0 {
		t.Errorf("the API works too: %+v, %v", servers, err)
	}
	worker, nowhere := s.ServeAPI(t, "--only", "worker")
	if nowhere != "" {
		t.Errorf("the worker answers at %s", nowhere)
	}
	worker.Until(t, "delivered", func() bool {
		_, text := rig.Ask(t, viewer, "GET", url+"/v1/notifications/one", "")
		return strings.Contains(text, `"state":"delivered"`)
	})
	s.Stop(t, api, worker)
	if log := api.Stderr.String(); strings.Contains(log, "hunter2") || strings.Count(log, "a request failed") != 4 {
		t.Errorf("%s", log)
	}
	counts, err := ledger.NewRecords(s.Client, "", 0).Counts(t.Context())
	if err != nil || counts.Accepted != 1 || counts.Ended[push.Delivered] != 1 {
		t.Errorf("%+v, %v", counts, err)
	}
}

// A request that is under way when serve is told to stop still ends.
func TestServeAPIDrains(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	p, url := s.ServeAPI(t, "--only", "api")
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
	body := rig.Notification("one", "ada", "chat", "apns", "00")
	select {
	case <-asked:
	case got := <-answered:
		t.Fatalf("answered %q before the body is sent", got)
	}
	if _, err := io.WriteString(out, body[:10]); err != nil { // it is being sent
		t.Fatal(err)
	}
	p.Terminate(t)
	p.Until(t, "stopping", func() bool { return strings.Contains(p.Stderr.String(), "stopping") })
	if _, err := io.WriteString(out, body[10:]); err != nil {
		t.Fatal(err)
	}
	_ = out.Close()
	if got := <-answered; got != "one" {
		t.Errorf("answered %q", got)
	}
	if got := p.Wait(t); got != rig.Done {
		t.Errorf("exit status %d: %s", got, &p.Stderr)
	}
}
