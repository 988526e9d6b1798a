package worker_test

import (
	"testing"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// A timeline has what the limiter has, and what the queue knows of those who wait.
func TestTimeline(t *testing.T) {
	r := newRig(t, oneRedis(t), limits.New(throttle.Policy{MinGap: time.Minute}, map[string]throttle.Policy{
		"digest": {Rates: []throttle.Rate{{Count: 1, Period: time.Hour}}}, "code": {Exempt: true},
	}))
	r.start()
	for i, id := range []string{"first", "second", "digest"} {
		n := to(id)
		if id == "digest" {
			n.Category = "digest"
		}
		r.enqueue(n)
		if i == 0 {
			r.settled(1)
			continue
		}
		r.deferred(id)
	}
	user := to("").User
	// a slot that nobody comes for, behind the one that is booked
	_, err := r.limiter.Acquire(t.Context(), throttle.Request{App: "shop", User: user, ID: "stray",
		Scopes: r.options.Limits.Scopes("shop", user, "digest"), Horizon: 48 * time.Hour})
	must(t, err)
	wait(t, func() bool {
		s, err := r.control().Status(t.Context(), push.Ref{ID: "digest"})
		return err == nil && s.Job == "retry"
	})
	got, err := r.control().Timeline(t.Context(), "shop", user, nil)
	must(t, err)
	if got.App != "shop" || got.User != user || time.Since(got.Now).Abs() > time.Minute || len(got.Scopes) != 3 {
		t.Fatalf("%+v", got)
	}
	general, code, digest := got.Scopes[0], got.Scopes[1], got.Scopes[2]
	if general.Scope != "all" || len(general.Admissions) != 1 || general.Admissions[0].ID != "first" ||
		len(general.Limits) != 1 || general.Source != limits.FromConfiguration || general.Limits[0].Used != 1 || !general.Limits[0].Free.After(got.Now) {
		t.Errorf("%+v", general)
	}
	if code.Scope != "code" || !code.Exempt || len(code.Limits) != 0 || digest.Scope != "digest" || digest.Exempt || len(digest.Limits) != 1 {
		t.Errorf("%+v, %+v", code, digest)
	}
	rules, after := map[string]string{}, map[string]string{}
	for _, w := range got.Bookings {
		rules[w.ID], after[w.ID] = w.Scope+" "+w.Rule, w.After.ID+" "+w.Category
		if known := w.ID != "stray"; known != (w.State == push.Waiting) || known != (w.Job != "") || !w.Slot.After(got.Now) && known {
			t.Errorf("%+v", w)
		}
	}
	if len(rules) != len(got.Bookings) || rules["second"] != "all gap" || rules["digest"] != "all gap" || rules["stray"] != "digest 1/1h" {
		t.Errorf("%+v", got.Bookings)
	}
	if after["second"] != "first " || after["digest"] != "second digest" || after["stray"] != "digest digest" {
		t.Errorf("after %v", after)
	}
	one, err := r.control().Timeline(t.Context(), "shop", "nobody", []string{"other", "code", "code"})
	must(t, err)
	if len(one.Scopes) != 3 || one.Scopes[1].Scope != "code" || one.Scopes[2].Scope != "other" || one.Scopes[2].Exempt || len(one.Bookings) != 0 {
		t.Errorf("%+v", one)
	}
}
