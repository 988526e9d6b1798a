package throttle

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// in is the request in a category, without limits of its own where p is nil.
func (l *clockedLine) in(category, id string, general Policy, p *Policy) Request {
	r := l.request(id, general)
	r.Category = category
	if p != nil {
		r.Scopes = append(r.Scopes, Scope{category, *p})
	}
	return r
}

func (l *clockedLine) ask(r Request, claim denial) Decision {
	l.t.Helper()
	d, err := l.limiter.wait(l.t.Context(), &r, l.limiter.user(&r), claim)
	if err != nil {
		l.t.Fatal(err)
	}
	return d
}

// One whose slot is lost comes as a newcomer, and leaves the queue when it goes: whoever
// stays there holds a slot that is another's.
func TestAHolderWithoutASlotLeavesTheQueue(t *testing.T) {
	t.Parallel()
	l := newClockedLine(t)
	policy := Policy{MinGap: time.Second}
	for i := range 5 {
		l.acquire(fmt.Sprint("n", i), policy)
	}
	l.server.Del("pushpace:{u}:booked")
	if _, err := l.limiter.Inherit(t.Context(), l.request("n2", policy), "n3"); err != nil {
		t.Error(err)
	}
	l.advance(time.Minute)
	if d := l.acquire("n1", policy); d.Status != Granted {
		t.Fatalf("%+v", d)
	}
	if queue, err := l.server.ZMembers("pushpace:{u}:queue:"); err != nil || strings.Contains(fmt.Sprint(queue), "n1") {
		t.Errorf("the queue is %v, %v", queue, err)
	}
}

// A category of which nobody waits any more waits by the limits of who comes next, not by
// those that were stored for it before.
func TestTheLimitsOfACategoryThatWaitsAgain(t *testing.T) {
	t.Parallel()
	l := newClockedLine(t)
	general, old, fresh := Policy{MinGap: time.Minute}, Policy{MinGap: time.Hour}, Policy{MinGap: 2 * time.Hour}
	day := func(r Request) Request { r.Horizon = 24 * time.Hour; return r }
	l.ask(day(l.in("a", "a0", general, &old)), denial{})
	l.ask(day(l.in("b", "b0", general, nil)), denial{}) // which keeps what is stored
	waits := day(l.in("a", "a1", general, &old))
	l.ask(waits, denial{})
	if _, err := l.limiter.Cancel(t.Context(), waits); err != nil {
		t.Fatal(err)
	}
	l.ask(day(l.in("a", "a2", general, &fresh)), denial{})
	if words := l.server.HGet("pushpace:{u}:limits", "ca"); words != fresh.words() {
		t.Errorf("slots are given by %q, want %q", words, fresh.words())
	}
}

// A newcomer goes behind all that were let through, also where they go out ahead: as the
// claim decides, which looks at the newest admissions only.
func TestANewcomerGoesBehindWhatIsAhead(t *testing.T) {
	t.Parallel()
	l := newClockedLine(t)
	general, gap := Policy{Rates: []Rate{{2, 10 * time.Second}}}, Policy{MinGap: 20 * time.Second}
	l.ask(l.in("c", "c1", general, &gap), denial{})
	l.advance(8 * time.Second)
	ahead := l.in("c", "c2", general, &gap)
	ahead.Wait = 15 * time.Second
	if d := l.ask(ahead, denial{}); d.Status != Granted || d.Left != 12*time.Second {
		t.Fatalf("ahead: %+v", d)
	}
	l.advance(time.Second)
	if d := l.ask(l.in("d", "d1", general, nil), denial{}); d.Left < time.Second {
		t.Errorf("one is to go in %v, of three in less than 10 s by the claim's rule", d.Left)
	}
}

// A claim that was made though somebody waited was in vain: what it moved is little, and
// the whole line is not given again for it.
func TestAClaimInVainMovesNobody(t *testing.T) {
	t.Parallel()
	l := newClockedLine(t)
	policy := Policy{MinGap: 10 * time.Second}
	for i := range 3 {
		l.acquire(fmt.Sprint("n", i), policy)
	}
	stamp := l.clock.now().UnixMicro()
	if _, err := l.server.ZAdd("pushpace:{u}:sent", float64(stamp), "late"); err != nil {
		t.Fatal(err)
	}
	l.acquire("n3", policy)
	if _, err := l.server.ZRem("pushpace:{u}:booked", " 1"); err != nil { // a hole that a replan would fill
		t.Fatal(err)
	}
	_, _ = l.server.ZRem("pushpace:{u}:booked:", " 1")
	_, _ = l.server.ZRem("pushpace:{u}:queue:", "n1")
	if d := l.ask(l.request("late", policy), denial{stamp, false}); len(d.Moved) > 0 {
		t.Errorf("moved: %v", d.Moved)
	}
}

// Of two accepted at one instant the ID decides, also what the later one is told.
func TestOfOneInstantTheIDDecides(t *testing.T) {
	t.Parallel()
	l := newClockedLine(t)
	for _, id := range []string{"first", "b", "c", "a"} {
		r := l.request(id, Policy{MinGap: 10 * time.Second})
		r.Accepted = start
		if d := l.ask(r, denial{}); d.Status == Deferred && d.Left != l.slots()[id] {
			t.Errorf("%s is told to come in %v, and has a slot in %v", id, d.Left, l.slots()[id])
		}
	}
	if slots := l.slots(); slots["a"] >= slots["b"] || slots["b"] >= slots["c"] {
		t.Errorf("the slots are %v", slots)
	}
}

// Of two places an heir has the earlier one, which may be the other's.
func TestAnHeirHasTheEarlierPlace(t *testing.T) {
	t.Parallel()
	l := newClockedLine(t)
	policy := Policy{MinGap: 10 * time.Second}
	for _, id := range []string{"first", "older", "between", "heir"} {
		l.acquire(id, policy)
	}
	before := l.slots()
	if _, err := l.limiter.Inherit(t.Context(), l.request("heir", policy), "older"); err != nil {
		t.Fatal(err)
	}
	if after := l.slots(); after["heir"] != before["older"] || after["between"] != before["between"] || len(after) != 2 {
		t.Errorf("the slots were %v and are %v", before, after)
	}
}

// A slot that is given again is given by the limits of all that wait. A request with
// others is held to its own: the script's half of TestASlotByOthersLimits.
func TestTheScriptHoldsARequestToItsOwnLimits(t *testing.T) {
	t.Parallel()
	l := newClockedLine(t)
	acquire := func(id, category string, wait time.Duration, p Policy) Decision {
		r := l.in(category, id, p, nil)
		r.Wait = wait
		return l.ask(r, denial{})
	}
	strict, gap := Policy{MinGap: 10 * time.Second}, Policy{MinGap: time.Second}
	loose := Policy{Rates: []Rate{{2, 3200 * time.Millisecond}}}
	acquire("first", "x", 0, strict)
	late := acquire("late", "x", 0, strict)
	l.advance(late.Left + 100*time.Millisecond)
	acquire("changes", "z", 0, loose)
	l.advance(200 * time.Millisecond)
	ahead := acquire("ahead", "z", 3*time.Second, loose)
	l.advance(300 * time.Millisecond)
	if d := acquire("late", "x", 3*time.Second, gap); d.Status == Granted && d.At.Sub(ahead.At).Abs() < gap.MinGap {
		t.Errorf("granted %v from another, under a gap of %v", d.At.Sub(ahead.At), gap.MinGap)
	}
}

// One that is late under its own limits stays in the queue, also where the limits that
// slots are given by limit nobody any more.
func TestALateOneIsNotLifted(t *testing.T) {
	t.Parallel()
	l := newClockedLine(t)
	gap, hour, lifted := Policy{MinGap: 300 * time.Millisecond}, Policy{MinGap: time.Hour}, Policy{}
	for i, general := range []Policy{gap, gap, lifted} {
		r := l.in("d", fmt.Sprint("d", i), general, &hour)
		r.Horizon = 24 * time.Hour
		l.ask(r, denial{})
	}
	late := l.ask(l.in("", "late", gap, nil), denial{})
	l.advance(100 * time.Millisecond)
	l.ask(l.in("e", "between", lifted, nil), denial{})
	l.advance(late.Left - 100*time.Millisecond)
	if d := l.ask(l.in("", "late", gap, nil), denial{}); d.Status != Deferred || d.Left != l.slots()["late"] {
		t.Errorf("late: %+v, its slot is in %v", d, l.slots()["late"])
	}
}

// What nobody has come for within the horizon is forgotten, and what was let through
// before it, whichever category's call it is.
func TestWhatIsBeyondTheHorizonGoes(t *testing.T) {
	t.Parallel()
	l := newClockedLine(t)
	policy := Policy{MinGap: time.Hour}
	ask := func(category, id string) Decision {
		r := l.in(category, id, policy, nil)
		r.Horizon = 24 * time.Hour
		return l.ask(r, denial{})
	}
	for _, id := range []string{"sent", "n1", "n2"} {
		ask("", id)
	}
	l.advance(24*time.Hour + 30*time.Minute)
	if ask("other", "m1"); len(l.slots()) != 2 {
		t.Errorf("within the horizon there wait %v", l.slots())
	}
	l.advance(time.Hour)
	ask("other", "m2")
	if slots := l.slots(); len(slots) != 1 || slots["n2"] == 0 {
		t.Errorf("there wait %v, want n2", slots)
	}
	for _, set := range []string{"booked", "queue:"} {
		if members, err := l.server.ZMembers("pushpace:{u}:" + set); err != nil || len(members) != 1 {
			t.Errorf("%s has %v, %v", set, members, err)
		}
	}
	if sent, err := l.server.ZMembers("pushpace:{u}:sent"); err != nil || fmt.Sprint(sent) != "[m1 m2]" {
		t.Errorf("let through were %v, %v", sent, err)
	}
}

// Whoever came to wait while a claim stood there, and counted it, comes forward when it
// is denied: of its category, however far away, of another one, and behind a claim of a
// clock that is ahead.
func TestWhoCountedADeniedClaimComesForward(t *testing.T) {
	t.Parallel()
	gap, hour := Policy{MinGap: 10 * time.Second}, Policy{MinGap: time.Hour}
	for name, tt := range map[string]struct {
		category string
		own      *Policy
		ahead    time.Duration
	}{
		"of the category, far away": {"c", &hour, 0},
		"of another category":       {"d", nil, 0},
		"behind one that is ahead":  {"d", nil, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newClockedLine(t)
			stamp := l.clock.now().Add(tt.ahead).UnixMicro()
			for _, set := range []string{"sent", "sent:c"} {
				if _, err := l.server.ZAdd("pushpace:{u}:"+set, float64(stamp), "late"); err != nil {
					t.Fatal(err)
				}
			}
			waits := l.in(tt.category, "waits", gap, tt.own)
			waits.Horizon = 24 * time.Hour
			if d := l.ask(waits, denial{}); d.Status != Deferred {
				t.Fatalf("behind the claim: %+v", d)
			}
			if d := l.ask(l.in("c", "late", gap, tt.own), denial{stamp, true}); len(d.Moved) != 1 || d.Moved[0].ID != "waits" {
				t.Errorf("moved: %v", d.Moved)
			}
		})
	}
}

// A process that has found somebody waiting near makes no claim, which would be in vain.
func TestNoClaimWhereSomebodyWaitsNear(t *testing.T) {
	t.Parallel()
	l := newClockedLine(t)
	for _, id := range []string{"sent", "n1", "n2"} {
		l.acquire(id, Policy{MinGap: 500 * time.Millisecond})
	}
	other := NewRedis(l.limiter.client, Options{Timeout: time.Minute, Now: l.clock.now})
	t.Cleanup(func() { _ = other.Close() })
	l.advance(l.slots()["n1"])
	for _, id := range []string{"n1", "new"} {
		before := other.RoundTrips()
		d, err := other.Acquire(t.Context(), l.request(id, Policy{MinGap: 500 * time.Millisecond}))
		if err != nil || (d.Status == Granted) != (id == "n1") || id == "new" && other.RoundTrips() > before+1 {
			t.Errorf("%s: %+v, %v, %d round trips", id, d, err, other.RoundTrips()-before)
		}
	}
}

// Slots whose limits are lost go, and their holders get others.
func TestSlotsWhoseLimitsAreLost(t *testing.T) {
	t.Parallel()
	l := newClockedLine(t)
	policy := Policy{MinGap: time.Second}
	for i := range 3 {
		l.acquire(fmt.Sprint("n", i), policy)
	}
	l.server.Del("pushpace:{u}:limits")
	if _, err := l.limiter.Reschedule(t.Context(), l.request("", policy)); err != nil || len(l.slots()) != 2 {
		t.Errorf("there wait %v: %v", l.slots(), err)
	}
	l.advance(time.Second)
	if d := l.acquire("n1", policy); d.Status != Granted {
		t.Errorf("n1 at its slot: %+v", d)
	}
}

// Who would come back after its own end is refused, also where the line is full. Who is to
// come back keeps its place until then.
func TestAFullLineRefusesWhoseEndComesFirst(t *testing.T) {
	t.Parallel()
	l := newClockedLine(t)
	r := l.request("", Policy{MinGap: 10 * time.Second})
	r.MaxBooked, r.Horizon = 1, 15*time.Second
	for i, want := range []Status{Granted, Deferred, Refused} {
		r.ID = fmt.Sprint("n", i)
		if d := l.ask(r, denial{}); d.Status != want || d.Full {
			t.Errorf("%s: %+v, want %v", r.ID, d, want)
		}
	}
	if queue, err := l.server.ZMembers("pushpace:{u}:queue:"); err != nil || len(queue) != 1 {
		t.Errorf("one that was refused is to come back: %v, %v", queue, err)
	}
	r.Horizon = time.Hour
	d := l.ask(r, denial{})
	if ttl := l.server.TTL("pushpace:{u}:queue:"); !d.Full || ttl < d.Left {
		t.Errorf("%+v, which is remembered for %v", d, ttl)
	}
}

// Claims see to it that a timeline lives as long as its last admission counts, also one
// that another process has emptied.
func TestClaimsKeepATimelineAlive(t *testing.T) {
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
		if _, err := other.Cancel(t.Context(), l.request(id, policy)); err != nil {
			t.Fatal(err)
		}
	}
	l.limiter.user(new(l.request("", policy))).kept.Store(l.limiter.elapsed()) // as after an admission
	acquire("n2")
}

// What waits, and what tells of it, lives as long as the last slot counts, however slots
// are given; an admission that is kept shortens no timeline's life.
func TestWhatWaitsOutlivesItsLastSlot(t *testing.T) {
	t.Parallel()
	l := newClockedLine(t)
	far, near := Policy{MinGap: 20 * time.Hour}, Policy{MinGap: 10 * time.Hour}
	ask := func(category, id string, own *Policy) {
		r := l.in(category, id, Policy{}, own)
		r.Horizon = 1000 * time.Hour
		l.ask(r, denial{})
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
	lives("bookings", 30*time.Hour, "booked", "queue:a", "limits")
	lives("bookings", 10*time.Hour, "queue:b")
	if _, err := l.limiter.Reschedule(t.Context(), l.in("a", "", Policy{}, &far)); err != nil {
		t.Fatal(err)
	}
	lives("a reschedule", 60*time.Hour, "booked", "queue:a", "limits")
	l.advance(5 * time.Hour)
	used := l.in("a", "a0", Policy{}, &far)
	used.Used = true
	if _, err := l.limiter.Cancel(t.Context(), used); err != nil {
		t.Fatal(err)
	}
	lives("one that was kept", 0, "sent", "sent:a")
}

// Those of a category that is exempt now wait no longer, though general limits stay.
func TestWhoIsExemptWaitsNoLonger(t *testing.T) {
	t.Parallel()
	l := newClockedLine(t)
	general := Policy{MinGap: time.Minute}
	for _, id := range []string{"a0", "a1", "b0"} {
		l.ask(l.in(id[:1], id, general, &Policy{MinGap: 2 * time.Minute}), denial{})
	}
	moved, err := l.limiter.Reschedule(t.Context(), l.in("a", "", general, &Policy{Exempt: true}))
	if err != nil || len(moved) == 0 || moved[0].ID != "a1" {
		t.Errorf("moved: %v, %v", moved, err)
	}
	if slots := l.slots(); len(slots) != 1 || slots["b0"] == 0 {
		t.Errorf("there wait %v, want b0", slots)
	}
}

// put enters the member into the user's sets, so far from now.
func (l *clockedLine) put(ahead time.Duration, member string, sets ...string) {
	l.t.Helper()
	for _, set := range sets {
		if _, err := l.server.ZAdd("pushpace:{u}:"+set, float64(l.clock.now().Add(ahead).UnixMicro()), member); err != nil {
			l.t.Fatal(err)
		}
	}
}

// waits has the notification wait of the category, under limits of its own or none.
func (l *clockedLine) waits(category, id string, ahead time.Duration, general Policy, own *Policy) {
	at := l.clock.now().Add(ahead).UnixMicro()
	l.put(ahead, fmt.Sprint(category, " ", at), "booked")
	l.put(ahead, id, "queue:"+category)
	l.server.HSet("pushpace:{u}:limits", "g", general.words(), "c"+category, own.words())
}
