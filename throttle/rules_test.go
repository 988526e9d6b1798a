package throttle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Claims keep a timeline's TTL at least as long as its last admission counts, also after another
// process has emptied the timeline.
func TestClaimsRenewTimelineExpiry(t *testing.T) {
	t.Parallel()
	l := newClockedLine(t)
	policy := Policy{MinGap: time.Second}
	other := newLimiter(t, l.limiter.client, Options{Timeout: time.Minute, Now: l.clock.now})
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

// TestDeniedClaimDelaysNoNotification books slots while a claim of another process is in the sets, and
// then denies the claim. The slots are as without the claim.
func TestDeniedClaimDelaysNoNotification(t *testing.T) {
	t.Parallel()
	policy := Policy{MinGap: 300 * time.Millisecond, Rates: []Rate{{10, 5 * time.Second}}}
	// slots returns the slots of 15 concurrent requests, with or without a claim
	slots := func(claims bool) []Booking {
		l := newClockedLine(t)
		l.ask(l.request("n0", policy), deniedClaim{})
		late, stamp := l.request("late", policy), l.clock.now().UnixMicro()+7
		if claims {
			must(t, l.limiter.client.ZAdd(t.Context(), l.limiter.user(&late).keys.sent, redis.Z{Score: float64(stamp), Member: "late"}).Err())
		}
		for i := range 14 {
			l.ask(l.request(fmt.Sprint("n", i+1), policy), deniedClaim{})
		}
		l.ask(late, deniedClaim{stamp, l.clock.now().UnixMicro()})
		timeline, err := l.limiter.Timeline(t.Context(), late)
		must(t, err)
		return timeline.Bookings
	}
	want, got := slots(false), slots(true)
	if !slices.EqualFunc(got, want, func(a, b Booking) bool {
		return a.ID == b.ID && a.Slot.Sub(b.Slot).Abs() <= 20*time.Millisecond
	}) {
		t.Errorf("with the claim\n%v, without\n%v", got, want)
	}
}

// A dry run returns the moves of a Replan at the same time.
func TestDryRunEqualsReplan(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		l, random := newClockedLine(t), rand.New(rand.NewPCG(seed, 0))
		policy := func() *Policy {
			return &Policy{MinGap: time.Duration(1+random.IntN(20)) * time.Second, Rates: []Rate{{1 + random.IntN(5), time.Duration(1+random.IntN(3)) * time.Minute}}}
		}
		general, own := policy(), map[string]*Policy{"": nil, "a": policy(), "b": policy()}
		for i := range 30 {
			category := []string{"", "a", "b"}[random.IntN(3)]
			r := l.in(category, fmt.Sprint("n", i), *general, own[category])
			r.Horizon = 1000 * time.Hour
			l.ask(r, deniedClaim{})
			l.advance(time.Duration(random.IntN(3000)) * time.Millisecond)
		}
		general, own["a"] = policy(), policy()
		var lines []Request
		for _, category := range []string{"b", "", "a"} {
			lines = append(lines, l.in(category, "", *general, own[category]))
		}
		before := l.server.DB(0).Keys()
		plan, err := l.limiter.DryRun(t.Context(), lines)
		if err != nil || len(plan.Moves) == 0 || len(plan.Others) > 0 || len(l.server.DB(0).Keys()) != len(before) {
			t.Fatal(plan, err)
		}
		must(t, errOf(l.limiter.Replan(t.Context(), lines)))
		timeline, err := l.limiter.Timeline(t.Context(), lines[0])
		waiting := slices.DeleteFunc(timeline.Bookings, func(b Booking) bool { return b.Slot.Before(timeline.Now.Add(-time.Second)) }) // others may pass it
		if err != nil || len(waiting) != len(plan.Moves) {
			t.Fatal(timeline, err)
		}
		at := map[string]time.Time{}
		for _, b := range waiting {
			at[b.ID] = b.Slot
		}
		for _, m := range plan.Moves {
			if !at[m.ID].Equal(m.To) {
				t.Errorf("seed %d: %s waits until %s, and the dry run said %s", seed, m.ID, at[m.ID], m.To)
			}
		}
	}
}
