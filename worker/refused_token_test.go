package worker_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

// If a provider refuses the app's configuration for one token, only that notification waits, and its
// retries do not close the route.
func TestOneRefusedTokenWaitsAlone(t *testing.T) {
	const n = 10
	for name, c := range map[string]struct {
		target push.Target
		answer standin.Answer
	}{
		"fcm, a third party":  {google, standin.Answer{Status: http.StatusUnauthorized, Reason: "THIRD_PARTY_AUTH_ERROR"}},
		"apns, its key":       {apple, standin.Answer{Status: http.StatusForbidden, Reason: "InvalidProviderToken"}},
		"fcm, one over quota": {google, standin.Answer{Status: http.StatusTooManyRequests, RetryAfter: time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, oneRedis(t), unlimited)
			log := r.logs()
			r.options.Attempts = 100
			one := devices(0xfff, c.target)[0]
			r.apns.Respond(one.Token, repeated(100, c.answer)...)
			r.fcm.Respond(one.Token, repeated(100, c.answer)...)
			r.start()
			r.enqueue(to("refused", one))
			wait(t, func() bool { return r.record("refused").Attempts == 1 })
			r.enqueueMany("flows", n, c.target)
			r.settled(n)
			wait(t, func() bool { return r.record("refused").Attempts >= 3 })
			r.enqueueMany("later", n, c.target)
			if counts := r.settled(2 * n); counts.Ended[push.Delivered] != 2*n {
				t.Errorf("counts %+v", counts)
			}
			if len(r.pauses()) != 0 || len(r.seen.closings()) != 0 {
				t.Errorf("pauses %+v, closed for %v", r.pauses(), r.seen.closings())
			}
			if kind := r.record("refused").Outcomes[0].Kind; kind == "misconfigured" && !strings.Contains(log.text(), "only this notification waits") {
				t.Errorf("the log does not report it:\n%s", log.text())
			}
		})
	}
}

func repeated(n int, a standin.Answer) (all []standin.Answer) {
	for range n {
		all = append(all, a)
	}
	return all
}
