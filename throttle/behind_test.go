package throttle

import (
	"reflect"
	"testing"
	"time"
)

// Who comes behind a line is placed without a look at all of it. These are the borders of
// that, which histories seldom reach; each call is held to the model's.
func TestBehindALine(t *testing.T) {
	t.Parallel()
	second := time.Second
	policy := Policy{Rates: []Rate{{3, 20 * second}}}
	for _, tt := range []struct {
		name  string
		state func(l *clockedLine)
		ask   func(l *clockedLine) []Request
		claim time.Duration // when the first one's claim was, which was denied
	}{
		{"a claim of its own counts for nothing", func(l *clockedLine) {
			l.put(-5*second, "s0", "sent")
			l.put(-4*second, "s1", "sent")
			l.put(-3*second, "s2", "sent")
			l.put(-time.Microsecond, "m", "sent")
			l.waits("", "n", 15*second, policy, nil)
		}, func(l *clockedLine) []Request {
			return []Request{l.in("", "m", policy, nil)}
		}, -time.Microsecond},
		{"accepted with the last one, and with an earlier ID", func(l *clockedLine) {
			l.waits("", "k", 5*second, policy, nil)
			l.waits("", "n", 15*second, policy, nil)
		}, func(l *clockedLine) []Request {
			r := l.in("", "m", policy, nil)
			r.Accepted = l.clock.now().Add(15 * second)
			return []Request{r}
		}, 0},
		{"one of the slots is forgotten", func(l *clockedLine) {
			l.waits("", "k", -24*time.Hour, policy, nil)
			l.waits("", "n", 15*second, policy, nil)
		}, func(l *clockedLine) []Request {
			return []Request{l.in("", "m", policy, nil)}
		}, 0},
		{"others hold the slots", func(l *clockedLine) {
			l.waits("a", "a1", 10*second, policy, nil)
			l.put(11*second, "a2", "queue:a")
			l.waits("b", "b1", 5*second, policy, nil)
			l.server.HSet("pushpace:{u}:limits", "full", "1")
		}, func(l *clockedLine) []Request {
			r := l.in("a", "a3", policy, nil)
			r.MaxBooked = 2
			return []Request{r}
		}, 0},
		{"one that waits without a slot gets the next of another category", func(l *clockedLine) {
			l.waits("a", "a1", 10*second, policy, nil)
		}, func(l *clockedLine) []Request {
			full := l.in("a", "a2", policy, nil)
			full.MaxBooked = 1
			return []Request{full, l.in("b", "b1", policy, nil)}
		}, 0},
		{"those without a slot come first", func(l *clockedLine) {
			l.waits("a", "a1", 10*second, policy, nil)
		}, func(l *clockedLine) []Request {
			full := l.in("a", "a2", policy, nil)
			full.MaxBooked = 1
			return []Request{full, l.in("a", "a3", policy, nil)}
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newClockedLine(t)
			tt.state(l)
			for i, r := range tt.ask(l) {
				u, fault := stateOf(t.Context(), l.limiter)
				if fault != "" {
					t.Fatal(fault)
				}
				var claim denial
				if i == 0 && tt.claim != 0 {
					claim.stamp = l.clock.now().Add(tt.claim).UnixMicro()
					u.sent[General] = u.sent[General][:len(u.sent[General])-1]
				}
				memory := NewTwin(TwinOptions{Now: l.clock.now})
				*memory.user(&r) = *u
				want, err := memory.Acquire(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				got := l.ask(r, claim)
				sortBookings(got.Moved)
				sortBookings(want.Moved)
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s:\n%+v, want\n%+v", r.ID, got, want)
				}
				after, fault := stateOf(t.Context(), l.limiter)
				if got, want := after.state(), memory.user(&r).state(); got != want || fault != "" {
					t.Errorf("after %s:\n%s, want\n%s%s", r.ID, got, want, fault)
				}
			}
		})
	}
}
