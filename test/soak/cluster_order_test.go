//go:build soak && unix

package soak

import (
	"fmt"
	"testing"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
)

// A user's notifications are admitted in the order of their acceptance, beside a backlog of
// others that two workers work off, whichever of them takes which.
func TestAClusterKeepsTheOrder(t *testing.T) {
	t.Parallel()
	users, rounds, backlog := size(200, 60), 20, size(100_000, 4000)
	r := newClusterRig(t, throttle.Policy{Rates: []throttle.Rate{{Count: 1000, Period: time.Minute}}})
	accepted := 0
	to := func(id, user string) *push.Notification {
		accepted++
		return &push.Notification{ID: id, App: "shop", User: user, Title: "hello", Targets: []push.Target{{Platform: push.FCM, Token: "device-" + user}}}
	}
	var others []*push.Notification
	for i := range 2 * backlog {
		others = append(others, to(fmt.Sprint("other-", i), fmt.Sprint("other-", i)))
	}
	r.enqueueAll(t, others[:backlog])
	r.work(t, 2)
	between := time.NewTicker(30 * time.Millisecond)
	defer between.Stop()
	for round := range rounds {
		batch := others[backlog+round*backlog/rounds:][:backlog/rounds]
		for user := range users {
			batch = append(batch[:len(batch):len(batch)], to(fmt.Sprint(round, " ", user), fmt.Sprint("user-", user)))
		}
		r.enqueueAll(t, batch)
		<-between.C
	}
	began := time.Now()
	r.rest(t, accepted)
	took := time.Since(began)

	limiter, err := throttle.New(r.Client, throttle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer limiter.Close()
	swapped, pairs := 0, 0
	for user := range users {
		timeline, err := limiter.Timeline(t.Context(), throttle.Request{App: "shop", User: fmt.Sprint("user-", user), Scopes: []throttle.Scope{{Name: throttle.General, Policy: r.policy}}})
		if err != nil {
			t.Fatal(err)
		}
		before, at := -1, time.Time{}
		for _, a := range timeline.Admissions[throttle.General] {
			var round, user int
			if _, err := fmt.Sscan(a.ID, &round, &user); err != nil {
				t.Fatal(err)
			}
			if pairs++; round < before && a.At.Sub(at) > 20*time.Millisecond { // instants are predicted
				swapped++
			}
			before, at = round, a.At
		}
	}
	t.Logf("%d of %d pairs are swapped; all %d have ended after %s", swapped, pairs, accepted, took.Round(time.Millisecond))
	// One that is late on a busy machine may be passed: the short form hardly lets the workers
	// come to rest. The tests of worker/queue hold each step to its order.
	if pairs != users*rounds || swapped > size(pairs/50, pairs/4) {
		t.Errorf("%d of %d pairs are swapped, want %d, and none but of late ones", swapped, pairs, users*rounds)
	}
}
