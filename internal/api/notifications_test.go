package api

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/pushpace/pushpace/internal/base/asynqwire"
	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/ledger/ledgertest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
)

func TestEnqueue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, c := range []struct {
		name, body string
		want       int
		id         string
		known      bool
	}{
		{"new", notification("order-1", "ada"), http.StatusAccepted, "order-1", false},
		{"the same again", notification("order-1", "ada"), http.StatusOK, "order-1", true},
		{"another", notification("a/b c?d#%", "ada"), http.StatusAccepted, "a/b c?d#%", false},
		{"later", `{"id":"later","app":"demo","user":"ada","targets":[{"platform":"fcm","token":"t"}],"title":"t","not_before":"2126-01-01T00:00:00Z"}`, http.StatusAccepted, "later", false},
		{"every field", `{"id":"full","app":"demo","user":"ü","category":"orders","priority":"bulk","targets":[{"platform":"apns","token":"Ab"},{"platform":"fcm","token":"t:1"}],
			"title":"a","subtitle":"b","body":"c","badge":0,"sound":"default","image":"https://example.com/a.png","thread":"d","channel":"e",
			"data":{"k":"v","K":"w"},"push_type":"alert","collapse_key":"f","ttl":"1d2h","apns":{"aps":{"category":"x"}},"fcm":{"android":{"ttl":"3s"}}}`,
			http.StatusAccepted, "full", false},
	} {
		answer := r.do(c.want, producerToken, "POST", "/v1/notifications", c.body)
		var got accepted
		answer.into(t, &got)
		if got.ID != c.id || got.Known != c.known {
			t.Errorf("%s: %s", c.name, answer.text)
		}
	}
	if p := r.do(http.StatusConflict, producerToken, "POST", "/v1/notifications", notification("order-1", "ben")).problem(t); !strings.Contains(p.Detail, "another user") {
		t.Errorf("an ID of another user: %+v", p)
	}
	r.log.lines()
	var generated accepted
	r.do(http.StatusAccepted, operatorToken, "POST", "/v1/notifications", notification("", "ada")).into(t, &generated)
	if len(generated.ID) != 36 {
		t.Errorf("the ID %q was generated", generated.ID)
	}
	if counts := r.counts(); counts.Accepted != 5 || counts.Waiting() != 5 {
		t.Errorf("%+v", counts)
	}
	if lines := r.log.lines(); len(lines) > 0 {
		t.Errorf("logged %q", lines)
	}
}

func TestStatusAndCancel(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const path = "/v1/notifications/a%2Fb%20c%3Fd%2E%2E"
	r.do(http.StatusAccepted, producerToken, "POST", "/v1/notifications", notification("a/b c?d..", "ada"))
	var status control.Status
	for _, token := range []string{producerToken, viewerToken, operatorToken} {
		status = control.Status{}
		r.do(http.StatusOK, token, "GET", path, "").into(t, &status)
		if status.ID != "a/b c?d.." || status.State != push.Waiting || status.Job != "pending" || time.Since(status.Accepted) > time.Minute {
			t.Errorf("%+v", status)
		}
	}
	if got := r.do(http.StatusOK, viewerToken, "HEAD", path, ""); got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("HEAD: %v", got.Header)
	}
	r.do(http.StatusForbidden, viewerToken, "DELETE", path, "")
	status = control.Status{}
	r.do(http.StatusOK, producerToken, "DELETE", path, "").into(t, &status)
	if status.State != push.Cancelled || status.Job != "" {
		t.Errorf("%+v", status)
	}
	r.do(http.StatusConflict, producerToken, "DELETE", path, "")
	for _, unknown := range []string{"none", "%00", strings.Repeat("x", 129), "%C3%A9"} {
		r.do(http.StatusNotFound, producerToken, "GET", "/v1/notifications/"+unknown, "")
		r.do(http.StatusNotFound, producerToken, "DELETE", "/v1/notifications/"+unknown, "")
	}
	if counts := r.counts(); counts.Accepted != 1 || counts.Ended[push.Cancelled] != 1 {
		t.Errorf("%+v", counts)
	}
	if left, err := r.client.Keys(t.Context(), "asynq:{*").Result(); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// One that a worker has in hand cannot be cancelled.
func TestCancelUnderWay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.do(http.StatusAccepted, producerToken, "POST", "/v1/notifications", notification("one", "ada"))
	held, release := make(chan struct{}), make(chan struct{})
	server := asynq.NewServerFromRedisClient(r.client, asynq.Config{Queues: asynqwire.Queues(), LogLevel: asynq.FatalLevel})
	if err := server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { close(held); <-release; return nil })); err != nil {
		t.Fatal(err)
	}
	<-held
	p := r.do(http.StatusConflict, producerToken, "DELETE", "/v1/notifications/one", "").problem(t)
	if !strings.Contains(p.Detail, "right now") {
		t.Errorf("%+v", p)
	}
	close(release)
	server.Shutdown()
}

// One that ended before anything was sent has an outcome that says nothing.
func TestStatusOfUnsent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.do(http.StatusAccepted, producerToken, "POST", "/v1/notifications", notification("late", "ada"))
	if _, err := ledgertest.At(r.t, r.options.Records, "late").Settle(t.Context(), "late", &ledger.End{State: push.Expired, Outcomes: []ledger.TargetOutcome{{}}}); err != nil {
		t.Fatal(err)
	}
	var status control.Status
	r.do(http.StatusOK, viewerToken, "GET", "/v1/notifications/late", "").into(t, &status)
	if status.State != push.Expired || len(status.Outcomes) != 1 || status.Outcomes[0].Kind != "" {
		t.Errorf("%+v", status)
	}
}

// One whose push is to tell of another is cancelled only by who says so; the status of the
// other says where it is told of.
func TestCancelCarrier(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	at := ledgertest.At(r.t, r.options.Records, "one")
	digest := at.Digest("shop", "ada", "", "k")
	for _, id := range []string{"one", "two"} {
		r.do(http.StatusAccepted, producerToken, "POST", "/v1/notifications", strings.Replace(notification(id, "ada"), "{", `{"digest":{"key":"k"},`, 1))
		if _, err := digest.Join(t.Context(), &ledger.Joiner{ID: id, JSON: []byte("{}")}, true, 0, 100); err != nil {
			t.Fatal(err)
		}
	}
	p := r.do(http.StatusConflict, producerToken, "DELETE", "/v1/notifications/one", "").problem(t)
	if p.Carries != 1 || !strings.Contains(p.Detail, "carries 1 other") {
		t.Errorf("%+v", p)
	}
	var status control.Status
	r.do(http.StatusOK, viewerToken, "GET", "/v1/notifications/two", "").into(t, &status)
	if status.State != push.Digested || status.Into != "one" {
		t.Errorf("%+v", status)
	}
	r.do(http.StatusBadRequest, producerToken, "DELETE", "/v1/notifications/one?digest=no", "")
	status = control.Status{}
	r.do(http.StatusOK, producerToken, "DELETE", "/v1/notifications/one?digest=true", "").into(t, &status)
	if status.State != push.Cancelled || status.Told != 1 {
		t.Errorf("%+v", status)
	}
}
