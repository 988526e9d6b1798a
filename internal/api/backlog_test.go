package api

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
)

// never is a time of the count that never gets old: a count that runs beside a request may or
// may not include the request's notification.
const never = math.MaxInt64

// While too many notifications wait or are dead letters, new ones are refused.
func TestFullQueueRefusesNotifications(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *rigOptions) { o.HTTP.MaxQueue = 3 })
	r.api.backlog.at.Store(never)
	for i := range 3 {
		r.do(http.StatusAccepted, producerToken, "POST", "/v1/notifications", notification(fmt.Sprint(i), "ada"))
	}
	for _, body := range []string{notification("more", "ada"), "[" + notification("more", "ada") + "]"} {
		r.api.backlog.at.Store(0)
		answer := r.do(http.StatusServiceUnavailable, producerToken, "POST", "/v1/notifications", body)
		if answer.Header.Get("Retry-After") != "1" {
			t.Errorf("%v", answer.Header)
		}
	}
	r.api.backlog.at.Store(0) // a known ID is refused too
	r.do(http.StatusServiceUnavailable, producerToken, "POST", "/v1/notifications", notification("0", "ada"))
	r.do(http.StatusOK, producerToken, "DELETE", "/v1/notifications/0", "")
	r.bury("dead") // a dead letter counts as well
	r.api.backlog.at.Store(0)
	r.do(http.StatusServiceUnavailable, producerToken, "POST", "/v1/notifications", notification("more", "ada"))
	r.do(http.StatusNoContent, operatorToken, "DELETE", "/v1/dead-letters/dead", "")
	r.api.backlog.at.Store(0)
	r.do(http.StatusAccepted, producerToken, "POST", "/v1/notifications", notification("more", "ada"))
}

// The backlog is counted at most once a second, in the background. An old count refuses
// nothing.
func TestOldBacklogCountRefusesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var counted, waiting atomic.Int64
		b := backlog{most: 10, count: func(context.Context) (int64, error) { counted.Add(1); return waiting.Load(), nil }}
		ask := func(want bool) {
			t.Helper()
			if got := b.full(t.Context()); got != want {
				t.Errorf("full: %t", got)
			}
			synctest.Wait()
		}
		waiting.Store(9)
		for range 100 {
			ask(false)
		}
		b.took(1)
		ask(true) // by the notification that was accepted since
		if n := counted.Load(); n != 1 {
			t.Errorf("counted %d times", n)
		}
		time.Sleep(freshFor)
		waiting.Store(0)
		ask(false) // by a new count
		time.Sleep(freshFor)
		waiting.Store(10)
		ask(false)
		ask(true)
		time.Sleep(time.Hour)
		waiting.Store(0)
		ask(false)
		if n := counted.Load(); n != 4 {
			t.Errorf("counted %d times", n)
		}
		b.measuring.Wait()
	})
}

// In the steady state a POST of one notification or of a hundred makes one round trip, that
// of an Enqueue.
func TestPostMakesOneRoundTrip(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.do(http.StatusAccepted, producerToken, "POST", "/v1/notifications", notification("first", "ada"))
	r.api.Close()
	counted := new(redistest.Trips)
	r.client.AddHook(counted)
	// the pipelines copy the client, so the hook must be there before
	r = newRigOn(t, r.client)
	r.do(http.StatusAccepted, producerToken, "POST", "/v1/notifications", notification("second", "ada"))
	r.api.Close()
	r.api.backlog.at.Store(never)
	counted.Take()
	for _, body := range []string{notification("third", "ada"), batchOf(0, 100)} {
		r.do(http.StatusAccepted, producerToken, "POST", "/v1/notifications", body)
		if got := counted.Take(); len(got) != 1 || got[0] != "evalsha" {
			t.Errorf("round trips %q", got)
		}
	}
}
