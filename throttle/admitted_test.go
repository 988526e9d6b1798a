package throttle

import (
	"fmt"
	"testing"
	"time"
)

// Who comes for its slot is held to what was sent alone, also where slots that are due
// lie between.
func TestTheLawReadsNoSlots(t *testing.T) {
	t.Parallel()
	l := newClockedLine(t)
	policy := Policy{Rates: []Rate{{6, 12 * time.Second}, {5, 11 * time.Second}, {4, 10 * time.Second}, {2, 5 * time.Second}}}
	for _, ago := range []time.Duration{12, 11, 10, 9, 2, 1} {
		l.put(-ago*time.Second, fmt.Sprint("s", ago), "sent")
	}
	l.waits("", "n", -5*time.Second, policy, nil)
	if d := l.acquire("n", policy); d.Status != Deferred || d.Left != 3*time.Second {
		t.Errorf("of the two within 5 s the first was sent 2 s ago: %+v", d)
	}
}

// Of those who are due one that may not go now is to come later, also where the one ahead
// of it stays due, and nobody who is to come meanwhile is late for it.
func TestOneThatIsDueWaitsForThoseToCome(t *testing.T) {
	t.Parallel()
	l := newClockedLine(t)
	general, own := Policy{MinGap: 2 * time.Second}, Policy{MinGap: 10 * time.Second}
	l.put(-9*time.Second, "s", "sent", "sent:b")
	l.waits("a", "a1", -10*time.Second, general, nil)
	l.waits("b", "b1", -7*time.Second, general, &own)
	l.waits("a", "a2", -5*time.Second, general, nil)
	if _, err := l.limiter.Reschedule(t.Context(), l.in("a", "", general, nil)); err != nil {
		t.Fatal(err)
	}
	if slots := l.slots(); slots["a1"] > 0 || slots["b1"] != time.Second || slots["a2"] < 3*time.Second {
		t.Errorf("the slots are %v", slots)
	}
}

// One that comes a hair after its slot goes, whoever waits behind it.
func TestAHairAfterItsSlot(t *testing.T) {
	t.Parallel()
	general, own := Policy{MinGap: 10 * time.Second}, Policy{MinGap: 50 * time.Millisecond}
	for _, by := range []time.Duration{500 * time.Microsecond, 2 * time.Millisecond} {
		l := newClockedLine(t)
		l.put(by-8*time.Second, "s", "sent")
		l.waits("c", "n", 2*time.Second, general, &own)
		for i := range 5 {
			l.waits("", fmt.Sprint("n", i), time.Duration(i+2)*10*time.Second, general, nil)
		}
		r := l.in("c", "n", general, &own)
		r.Wait = 5 * time.Second
		if d := l.ask(r, denial{}); d.Status != Granted || d.Left != 2*time.Second+by {
			t.Errorf("%v after its slot: %+v", by, d)
		}
	}
}

// Whether a process makes claims goes by who waits near: of the category, or of another
// one within the longest period.
func TestWhoWaitsNear(t *testing.T) {
	t.Parallel()
	policy := Policy{MinGap: 10 * time.Second}
	for _, tt := range []struct {
		category string
		ahead    time.Duration
		near     bool
	}{{"c", 30 * time.Minute, true}, {"", 9 * time.Second, true}, {"", 11 * time.Second, false}} {
		l := newClockedLine(t)
		l.waits("c", "goes", 0, policy, nil)
		l.waits(tt.category, "waits", tt.ahead, policy, nil)
		r := l.in("c", "goes", policy, nil)
		if d := l.ask(r, denial{}); d.Status != Granted {
			t.Fatalf("at its slot: %+v", d)
		}
		if near := l.limiter.user(&r).waits.Load() > l.limiter.elapsed(); near != tt.near {
			t.Errorf("one of %q in %v waits near: %t", tt.category, tt.ahead, near)
		}
	}
}
