package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
	"github.com/pushpace/pushpace/push"
)

// An unexpected error is logged once, without its text.
func TestUnexpectedErrorIsLoggedWithoutText(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	recorder := httptest.NewRecorder()
	r.api.fail(recorder, httptest.NewRequest("GET", "/v1/audit", nil), "/v1/audit", "wall", fmt.Errorf("user %q of `%s`: the unexpected: \"%s", canary, canary, canary))
	if line := r.log.String(); !strings.Contains(line, `"cause":"user … of …: the unexpected: "`) {
		t.Error(line)
	}
	r.oneLine(http.StatusInternalServerError, "/v1/audit", "wall")
	if recorder.Code != http.StatusInternalServerError || strings.Contains(recorder.Body.String(), canary) {
		t.Errorf("%d %s", recorder.Code, recorder.Body)
	}
}

// Requeuing a dead letter fails with a retry while a worker has its last job in flight.
func TestRequeueOfJobInFlightAsksForRetry(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	letter := &store.Letter{ID: "held", State: store.Malformed, Queue: push.Default.Queue(), Job: []byte("{"), At: time.Now()}
	must(t, storetest.First(r.t, r.options.Records).SetAside(t.Context(), letter))
	// asynq stores a job in flight like this
	must(t, r.client.HSet(t.Context(), storetest.First(t, r.options.Records).QueueKey(letter.Queue, "t:held"), "state", "active", "msg", "").Err())
	p := r.do(http.StatusServiceUnavailable, operatorToken, "POST", "/v1/dead-letters/held/requeue", "").problem(t)
	if !strings.HasPrefix(p.Detail, "A worker") {
		t.Errorf("%+v", p)
	}
	r.do(http.StatusOK, operatorToken, "GET", "/v1/dead-letters/held", "")
}
