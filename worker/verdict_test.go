package worker_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/route"
)

// An answer about the app's configuration to one token delays no push to others. Its
// notification waits alone, and its retries do not close the route.
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
			if len(r.pauses()) != 0 || len(r.seen.pausesSeen()) != 0 || r.seen.isBroken() {
				t.Errorf("pauses %+v, seen %v, breaker open: %t", r.pauses(), r.seen.pausesSeen(), r.seen.isBroken())
			}
			if kind := r.record("refused").Outcomes[0].Kind; kind == "misconfigured" && !strings.Contains(log.text(), "it alone waits") {
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

// A 429 is one device's trouble, until most devices get it: then it is the provider's. Its
// notifications wait, spend no attempts, and are delivered afterwards.
func TestAnswerThatMostGetIsTheProviders(t *testing.T) {
	const n = 100
	r := newRig(t, oneRedis(t), hourly)
	log := r.logs()
	r.options.Attempts = 1
	r.hasten(200*time.Millisecond, 0)
	r.apns.RespondAlways(standin.Answer{Status: http.StatusTooManyRequests, Reason: "TooManyRequests", RetryAfter: 2 * time.Second})
	r.options.Concurrency = 2
	w := r.run()
	for i := range n {
		one := to(fmt.Sprint("all-", i), devices(i, apple)...)
		one.User = one.ID
		r.enqueue(one)
	}
	s := r.standing(pause.Provider)
	if s.Reason != "TooManyRequests" || s.Failures < 5 || s.Answers < s.Failures {
		t.Errorf("the incident %+v", s)
	}
	wait(t, func() bool { return statusOf(t, w, "shop", push.APNs).Breaker != route.BreakerClosed })
	wait(t, func() bool { return len(r.seen.pausesSeen()) >= 3 }) // probed, and paused again
	counts, err := r.records.Counts(t.Context())
	must(t, err)
	if counts.Waiting() < n-5 {
		t.Errorf("counts %+v: its notifications end", counts)
	}
	if received := r.apns.Count().Received; received > 40 {
		t.Errorf("%d requests of %d notifications while most are refused", received, n)
	}
	r.apns.Recover()
	counts = r.settled(n)
	if exhausted := counts.Ended[push.Exhausted]; exhausted > 4 || counts.Ended[push.Delivered] != n-exhausted {
		t.Errorf("counts %+v: want all but the first four delivered", counts)
	}
	if got := strings.Count(log.text(), "asks for a pause"); got != 1 {
		t.Errorf("the log has %d lines:\n%s", got, log.text())
	}
	if !strings.Contains(log.text(), "failures=") || !strings.Contains(log.text(), "answers=") {
		t.Errorf("the log does not say how many of the answers fail:\n%s", log.text())
	}
}
