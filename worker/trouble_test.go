package worker_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/route"
)

var (
	apple  = push.Target{Platform: push.APNs, Token: appleToken}
	google = push.Target{Platform: push.FCM, Token: googleToken}
)

// hourly is a limit that no test reaches, so that admissions are counted.
var hourly = limits.New(throttle.Policy{Rates: []throttle.Rate{{Count: 90, Period: time.Hour}}}, nil)

// hasten sets how long a route stays closed, and the first pause.
func (r *rig) hasten(open, paused time.Duration) { r.options.Hasten(open, paused, 50*time.Millisecond) }

// slots returns the number of u1's admissions and booked slots.
func (r *rig) slots() int {
	r.t.Helper()
	timeline := r.timeline("u1")
	return len(timeline.Admissions[throttle.General]) + len(timeline.Bookings)
}

// pauses returns the providers' delays that all workers share.
func (r *rig) pauses() []pause.Pause {
	r.t.Helper()
	in, err := pause.NewStore(r.client, "").Read(r.t.Context())
	must(r.t, err)
	return in.Providers
}

// enqueueMany enqueues n notifications, each to its own devices.
func (r *rig) enqueueMany(name string, n int, targets ...push.Target) {
	r.t.Helper()
	for i := range n {
		r.enqueue(to(fmt.Sprintf("%s-%d", name, i), devices(i, targets...)...))
	}
}

// devices returns the targets with different tokens for each i.
func devices(i int, targets ...push.Target) []push.Target {
	all := slices.Clone(targets)
	for j := range all {
		token := all[j].Token
		all[j].Token = fmt.Sprintf("%s%04x", token[:len(token)-4], i)
	}
	return all
}

func TestProviderOutageLosesNothing(t *testing.T) {
	const n = 30
	r := newRig(t, oneRedis(t), hourly)
	r.options.Concurrency = 2
	r.hasten(time.Second, 0)
	r.apns.RespondAlways(standin.Answer{Status: http.StatusServiceUnavailable})
	w := r.run()
	began := time.Now()
	r.enqueueMany("down", n, apple)
	wait(t, func() bool { return len(r.seen.closings()) > 0 })
	r.enqueueMany("flows", n, google)
	r.settled(n)
	if got := len(r.fcm.Ledger().Entries()); got != n {
		t.Errorf("%d pushes to the other platform, want %d", got, n)
	}
	wait(t, func() bool { return r.slots() == n }) // waiting notifications hold no slots
	attempts := 0
	for i := range n {
		record := r.record(fmt.Sprintf("down-%d", i))
		if record.State != push.Waiting {
			t.Errorf("record %+v", record)
		}
		attempts += record.Attempts
	}
	// a few attempts until the route closes, then one a second
	if most := 10 + int(time.Since(began)/time.Second); attempts > most {
		t.Errorf("%d attempts while the provider is down, with %d notifications; want at most %d", attempts, n, most)
	}
	r.apns.Recover()
	counts := r.settled(2 * n)
	if counts.Ended[push.Delivered] != 2*n || len(r.pushed("")) != 2*n || r.archived() != 0 {
		t.Errorf("counts %+v with %d pushes", counts, len(r.pushed("")))
	}
	if s := statusOf(t, w, "shop", push.APNs); s.State != route.Open {
		t.Errorf("the status of its route is still closed: %+v", s)
	}
	if got := r.slots(); got != 2*n {
		t.Errorf("%d slots are spent on %d notifications", got, 2*n)
	}
}

// A misconfigured app's notifications wait until its configuration is right, and the log has one error.
func TestMisconfiguredAppKeepsNotifications(t *testing.T) {
	const n = 20
	r := newRig(t, oneRedis(t), hourly)
	log := r.logs()
	r.options.Concurrency, r.options.Attempts = 2, 1
	r.hasten(100*time.Millisecond, 300*time.Millisecond)
	r.apns.RespondAlways(standin.Answer{Status: http.StatusForbidden, Reason: "InvalidProviderToken"})
	r.start()
	r.enqueueMany("kept", n, apple)
	r.enqueueMany("flows", n, google)
	r.settled(n)
	wait(t, func() bool { return len(r.seen.closings()) >= 3 }) // probed, and paused again
	counts, err := r.records.Counts(t.Context())
	must(t, err)
	if counts.Ended[push.Delivered] != n || counts.Waiting() != n {
		t.Errorf("counts %+v", counts)
	}
	// two requests at first, then one after each pause
	if received, paused := r.apns.Count().Received, len(r.seen.closings()); received > int64(paused)+5 {
		t.Errorf("%d requests in %d pauses, while the app is misconfigured", received, paused)
	}
	if got := strings.Count(log.String(), "level=ERROR"); got != 1 {
		t.Errorf("%d errors are logged:\n%s", got, log.String())
	}
	if got := r.seen.closings()[0]; got != "InvalidProviderToken" {
		t.Errorf("paused because of %s", got)
	}
	r.apns.Recover()
	counts = r.settled(2 * n)
	if counts.Ended[push.Delivered] != 2*n || len(r.pushed("")) != 2*n {
		t.Errorf("counts %+v with %d pushes", counts, len(r.pushed("")))
	}
	wait(t, func() bool { return strings.Contains(log.String(), "works again") })
	if strings.Contains(log.String(), appleToken) {
		t.Errorf("the log: %s", log.String())
	}
}

// If a notification's provider is paused at its slot, the notification gives the slot back, and a
// notification to the user's other platform uses the slot.
func TestPausedProviderReleasesSlot(t *testing.T) {
	r, o := tuned(t, oneRedis(t), every(time.Hour), nil)
	r.hasten(100*time.Millisecond, time.Minute)
	r.start()
	r.enqueue(to("first", apple))
	r.settled(1)
	r.enqueue(to("second", apple))
	r.deferred("second")
	r.apns.RespondAlways(standin.Answer{Status: http.StatusForbidden, Reason: "InvalidProviderToken"})
	for i := range 20 { // just after a delivery
		trigger := to(fmt.Sprint("trigger-", i), devices(i, apple)...)
		trigger.User = fmt.Sprint("trigger-", i)
		r.enqueue(trigger)
	}
	wait(t, func() bool { return len(r.seen.closings()) == 1 })
	r.let(o) // the raised limit wakes it
	wait(t, func() bool { return r.slots() == 1 })
	r.enqueue(to("other", google))
	r.settled(2)
	if record := r.record("second"); record.State != push.Waiting || record.Attempts != 0 {
		t.Errorf("record %+v", record)
	}
	if got := r.slots(); got != 2 {
		t.Errorf("%d slots are spent on two that were sent", got)
	}
}

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
			if kind := r.record("refused").Outcomes[0].Kind; kind == "misconfigured" && !strings.Contains(log.String(), "only this notification waits") {
				t.Errorf("the log does not report it:\n%s", log.String())
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
