//go:build e2e && unix

package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/pushpace/pushpace"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/rig"
)

// underWay waits until n jobs are in flight.
func underWay(t *testing.T, s *rig.Site, workers *rig.Program, n int) {
	t.Helper()
	inspector := asynq.NewInspectorFromRedisClient(s.Client)
	workers.Until(t, "under way", func() bool {
		info, err := inspector.GetQueueInfo(shard.NewShards(s.Client, "", 1)[0].Queue(push.Default.Queue()))
		return err == nil && info.Active == n
	})
}

// At a shutdown, pushes in flight still end and are recorded.
func TestServeDrains(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	s.StandIns(t, 4*time.Second)
	workers := s.Serve(t)
	s.Send(t, rig.Notification("slow-1", "ada", "chat", "apns", "00")+rig.Notification("slow-2", "ben", "chat", "fcm", "ben-pixel"))
	underWay(t, s, workers, 2)
	s.Stop(t, workers)
	counts, err := store.NewRecords(s.Client, "", 0).Counts(t.Context())
	if err != nil || counts.Ended[push.Delivered] != 2 || counts.Waiting() != 0 {
		t.Errorf("%+v, %v", counts, err)
	}
}

func TestSecondSignalEndsServeAtOnce(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	s.StandIns(t, 9*time.Second)
	workers := s.Serve(t)
	s.Send(t, rig.Notification("slow-1", "ada", "chat", "apns", "00"))
	underWay(t, s, workers, 1)
	workers.Terminate(t)
	workers.Until(t, "the first signal", func() bool { return strings.Contains(workers.Stderr.String(), "stopping") })
	workers.Terminate(t)
	workers.Wait(t)
	if status, ok := workers.Cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
		t.Errorf("ended with %v", workers.Cmd.ProcessState)
	}
}

// The log reports each changed credential file. It reports an invalid file once, and the old
// credentials stay in use.
func TestServeLogsChangedCredentials(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	s.Simulate(t, "--dir", s.Dir)
	workers := s.Serve(t)
	var file string
	for _, entry := range s.Env {
		if path, ok := strings.CutPrefix(entry, "PUSHPACE_APPS__DEMO__FCM__CREDENTIALS_FILE="); ok {
			file = path
		}
	}
	good, err := os.ReadFile(file)
	rig.Must(t, err)
	for _, change := range []struct{ text, level string }{{"{}", "level=ERROR"}, {string(good) + "\n", "level=INFO"}} {
		rig.Must(t, os.WriteFile(file, []byte(change.text), 0o600))
		workers.Until(t, change.level, func() bool {
			for line := range strings.Lines(workers.Stderr.String()) {
				if strings.Contains(line, change.level) && strings.Contains(line, "the credentials") && strings.Contains(line, "app=demo platform=fcm") {
					return true
				}
			}
			return false
		})
	}
	s.Send(t, rig.Notification("one", "ada", "chat", "fcm", "ada-pixel"))
	workers.Until(t, "the push", func() bool { return len(s.Ledger(t)) == 1 })
	s.Stop(t, workers)
	if n := strings.Count(workers.Stderr.String(), "level=ERROR"); n != 1 {
		t.Errorf("%d errors: %s", n, &workers.Stderr)
	}
}

// With --only, one process serves the API and a second one sends. The API needs no provider's
// credentials, and its log contains no token.
func TestServeOnlyRunsOneRole(t *testing.T) {
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
	if status, text := rig.Ask(t, producer, "GET", url+"/v1/audit", ""); status != http.StatusForbidden {
		t.Errorf("%d: %s", status, text)
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
	if log := api.Stderr.String(); strings.Contains(log, "hunter2") || strings.Count(log, "a request failed") != 1 {
		t.Errorf("%s", log)
	}
	counts, err := store.NewRecords(s.Client, "", 0).Counts(t.Context())
	if err != nil || counts.Accepted != 1 || counts.Ended[push.Delivered] != 1 {
		t.Errorf("%+v, %v", counts, err)
	}
}

// A request in flight at a shutdown still finishes.
func TestServeAPIDrains(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	p, url := s.ServeAPI(t, "--only", "api")
	in, out := io.Pipe()
	asked := make(chan struct{}) // closed when the server asks for the body: the request has arrived
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(asked) }})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/notifications", in)
	rig.Must(t, err)
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
	if _, err := io.WriteString(out, body[:10]); err != nil { // the request is being sent
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
