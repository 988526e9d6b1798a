package problems

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

// A refusal is an error that Redis answers.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) RedisError()     {}

// Only errors of Redis, and of the connection to it, are attributed to Redis.
func TestOnlyRedisErrorsAreAttributedToRedis(t *testing.T) {
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
		{push.ErrStillThere, http.StatusServiceUnavailable, "A worker still has the job of the last attempt."},
		{store.ErrNoLetter, http.StatusNotFound, "No dead letter has this ID."},
		{push.ErrUnderWay, http.StatusConflict, "The notification is being sent right now; look again in a moment."},
		{push.ErrEnded, http.StatusConflict, "The notification has ended."},
		{&store.EndedError{State: push.Delivered}, http.StatusConflict, "The notification has ended: delivered."},
		{errors.New("odd"), http.StatusInternalServerError, own},
	} {
		p := Of(fmt.Errorf("somewhere: %w", c.err))
		if p.Status != c.status || p.Detail != c.detail || (p.RetryAfter > 0) != (c.status == http.StatusServiceUnavailable) {
			t.Errorf("%v: %+v", c.err, p)
		}
	}
}

// An error is restored from the code of its answer, and gets the same answer again.
func TestErrorIsRestoredFromItsCode(t *testing.T) {
	t.Parallel()
	codes := map[string]bool{}
	for _, err := range []error{
		push.ErrUnknownID, push.ErrConflict, push.ErrUnderWay, push.ErrStillThere, push.ErrEnded, &store.EndedError{State: push.Expired}, &push.CarriesError{Others: 3},
		&push.AmbiguousError{Choices: []push.Ref{{ID: "one", App: "shop", User: "ada"}, {ID: "one"}}}, store.ErrNoLetter,
		operate.ErrNoOverride, operate.ErrNoPause, operate.ErrNoChange, operate.ErrNoUndo, control.ErrNoLoss, control.ErrMoreLost, operate.ErrPreviewBusy,
		limits.ErrTooManyOverrides, limits.ErrConflict, pause.ErrTooMany, pause.ErrOver,
	} {
		answer, fault := json.Marshal(Of(fmt.Errorf("somewhere: %w", err)))
		var read Problem
		if fault != nil || json.Unmarshal(answer, &read) != nil {
			t.Fatal(fault)
		}
		known := read.Known("one")
		if again, _ := json.Marshal(Of(known)); known == nil || known.Error() != err.Error() || string(again) != string(answer) {
			t.Errorf("%v: %s is %v", err, answer, known)
		}
		if read.Title == "" || read.Detail == "" {
			t.Errorf("%v: %s", err, answer)
		}
		codes[read.Code] = true
	}
	for _, code := range Codes() {
		if known := (&Problem{Code: code}).Known(""); (known != nil) != codes[code] {
			t.Errorf("%s is %v", code, known)
		}
	}
	if (&Problem{}).Known("") != nil || (&Problem{Code: "of another version"}).Known("") != nil {
		t.Error("an error without a known code has a name")
	}
}

// A detail that ends with a question mark gets no full stop.
func TestDetailKeepsQuestionMark(t *testing.T) {
	t.Parallel()
	for problem, want := range map[string]string{"app is not known: did you mean shop?": "The app is not known: did you mean shop?", "app is missing": "The app is missing."} {
		if got := Of(&operate.UnknownError{Kind: "app", Problem: problem}).Detail; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
