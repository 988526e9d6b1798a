package throttle

import (
	"fmt"
	"testing"
	"time"
)

// Claims keep a timeline's TTL at least as long as its last admission counts, also after another
// process has emptied the timeline.
func TestClaimsRenewTimelineExpiry(t *testing.T) {
	t.Parallel()
	l := newClockedLine(t)
	policy := Policy{MinGap: time.Second}
	other := NewRedis(l.limiter.client, Options{Timeout: time.Minute, Now: l.clock.now})
	t.Cleanup(func() { _ = other.Close() })
	acquire := func(id string) {
		t.Helper()
		if d, err := l.limiter.Acquire(t.Context(), l.request(id, policy)); err != nil || d.Status != Granted {
			t.Fatal(d, err)
		}
		if ttl := l.server.TTL("pushpace:{u}:sent"); ttl < 24*time.Hour {
			t.Errorf("after %s the timeline expires in %v", id, ttl)
		}
		l.advance(12 * time.Hour)
		l.server.FastForward(12 * time.Hour)
	}
	acquire("n0")
	acquire("n1")
	for _, id := range []string{"n0", "n1"} {
		must(t, errOf(other.Cancel(t.Context(), l.request(id, policy))))
	}
	l.limiter.user(new(l.request("", policy))).kept.Store(l.limiter.elapsed()) // as after an admission
	acquire("n2")
}

// The keys of waiting notifications expire after the last slot no longer counts. A cancel that
// keeps the admission does not shorten the timeline's TTL.
func TestSlotKeysOutliveLastSlot(t *testing.T) {
	t.Parallel()
	l := newClockedLine(t)
	far, near := Policy{MinGap: 20 * time.Hour}, Policy{MinGap: 10 * time.Hour}
	ask := func(category, id string, own *Policy) {
		r := l.in(category, id, Policy{}, own)
		r.Horizon = 1000 * time.Hour
		l.ask(r, deniedClaim{})
	}
	lives := func(after string, last time.Duration, sets ...string) {
		t.Helper()
		for _, set := range sets {
			if ttl, want := l.server.TTL("pushpace:{u}:"+set), last+time.Duration(l.limiter.life())*time.Microsecond; ttl < want {
				t.Errorf("after %s %s expires in %v, want %v at least", after, set, ttl, want)
			}
		}
	}
	for i := range 4 {
		ask("a", fmt.Sprint("a", i), &near)
	}
	for i := range 2 {
		ask("b", fmt.Sprint("b", i), &near)
	}
	lives("bookings", 30*time.Hour, "slots", "lines")
	must(t, errOf(l.limiter.Replan(t.Context(), []Request{l.in("a", "", Policy{}, &far)})))
	lives("a reschedule", 60*time.Hour, "slots", "lines")
	l.advance(5 * time.Hour)
	used := l.in("a", "a0", Policy{}, &far)
	used.Used = true
	must(t, errOf(l.limiter.Cancel(t.Context(), used)))
	lives("one that was kept", 0, "sent", "sent:a")
}

// A job that never asks again delays the jobs behind it once, by a second. A replan does not move
// its slot, and an hour later calls return the slot.
func TestMissingJobDelaysLineOnce(t *testing.T) {
	t.Parallel()
	l := newClockedLine(t)
	policy := Policy{MinGap: 10 * time.Second}
	var slots []Decision
	for i := range 5 {
		slots = append(slots, l.ask(l.request(fmt.Sprint("n", i), policy), deniedClaim{}))
	}
	dead := slots[1].At
	for i, d := range slots[2:] {
		l.advance(d.At.Sub(l.clock.now()))
		must(t, errOf(l.limiter.Replan(t.Context(), []Request{l.request("", policy)})))
		if d := l.ask(l.request(fmt.Sprint("n", i+2), policy), deniedClaim{}); d.Status != Granted || len(d.Early) > 0 {
			t.Errorf("behind one that never came: %+v", d)
		}
	}
	l.advance(time.Hour)
	d := l.ask(l.request("new", policy), deniedClaim{})
	if len(d.Early) != 1 || d.Early[0].ID != "n1" || !d.Early[0].Slot.Equal(dead) {
		t.Errorf("an hour later are named %+v", d.Early)
	}
}
