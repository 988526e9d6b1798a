package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
)

// A refusal is an error that Redis answers.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

// Only what Redis, or the way there, is to blame for is said to be.
func TestProblemOf(t *testing.T) {
	t.Parallel()
	const redisWords, odd, own = "Redis does not answer.", "Redis does not answer as it should.", "This should not happen; the log says where it did."
	for _, c := range []struct {
		err    error
		status int
		detail string
	}{
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, http.StatusServiceUnavailable, redisWords},
		{context.DeadlineExceeded, http.StatusServiceUnavailable, redisWords},
		{os.ErrDeadlineExceeded, http.StatusServiceUnavailable, redisWords},
		{io.EOF, http.StatusServiceUnavailable, redisWords},
		{redis.ErrClosed, http.StatusServiceUnavailable, odd},
		{redis.ErrPoolTimeout, http.StatusServiceUnavailable, redisWords},
		{errors.New("redis: cluster has no nodes"), http.StatusServiceUnavailable, "Redis is a Cluster that is down (CLUSTERDOWN)."},
		{errors.New("UNKNOWN: redis eval error: dial tcp"), http.StatusServiceUnavailable, redisWords},
		{throttle.ErrUnavailable, http.StatusServiceUnavailable, odd},
		{errors.New("UNKNOWN: redis eval error: OOM command not allowed"), http.StatusServiceUnavailable, "Redis is full (OOM)."},
		{fmt.Errorf("settle: %w", refusal("NOPERM this user has no permissions to run the 'lpush' command")), http.StatusServiceUnavailable, "Redis refuses a command: give its user the rights."},
		{push.ErrStillThere, http.StatusServiceUnavailable, "A worker has not put down the job of the last attempt."},
		{store.ErrNoLetter, http.StatusNotFound, "No dead letter has this ID."},
		{push.ErrUnderWay, http.StatusConflict, "The notification is being sent right now; look again in a moment."},
		{push.ErrEnded, http.StatusConflict, "The notification has ended."},
		{&store.EndedError{State: push.Delivered}, http.StatusConflict, "The notification has ended: delivered."},
		{errors.New(canary), http.StatusInternalServerError, own},
	} {
		p := problemOf(fmt.Errorf("somewhere: %w", c.err))
		if p.Status != c.status || p.Detail != c.detail || (p.retryAfter > 0) != (c.status == http.StatusServiceUnavailable) {
			t.Errorf("%v: %+v", c.err, p)
		}
	}
}

// What nobody expects is logged once, without what it quotes.
func TestUnknownError(t *testing.T) {
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

// A dead letter whose last job a worker still holds is to be tried again.
func TestRequeueTooEarly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	letter := &store.Letter{ID: "held", State: store.Malformed, Queue: push.Default.Queue(), Job: []byte("{"), At: time.Now()}
	must(t, storetest.First(r.t, r.options.Records).SetAside(t.Context(), letter))
	// as asynq has a job that is being handled
	must(t, r.client.HSet(t.Context(), storetest.First(t, r.options.Records).QueueKey(letter.Queue, "t:held"), "state", "active", "msg", "").Err())
	p := r.do(http.StatusServiceUnavailable, operatorToken, "POST", "/v1/dead-letters/held/requeue", "").problem(t)
	if !strings.HasPrefix(p.Detail, "A worker") {
		t.Errorf("%+v", p)
	}
	r.do(http.StatusOK, operatorToken, "GET", "/v1/dead-letters/held", "")
}
