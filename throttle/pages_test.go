package throttle

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

const scriptBounds = "local page, budget, window = 500, 4000, 500\n"

// bounded is booking.lua with other bounds of what one call does.
func bounded(page, budget, window int) *redis.Script {
	if strings.Count(bookingSource, scriptBounds) != 1 {
		panic("booking.lua does not say its bounds as " + scriptBounds)
	}
	bounds := fmt.Sprintf("local page, budget, window = %d, %d, %d\n", page, budget, window)
	return redis.NewScript(strings.Replace(bookingSource, scriptBounds, bounds, 1))
}

var (
	// smallBounds have short lines need many calls, which on long ones only much work does.
	smallBounds = bounded(3, 60, 4)
	// onePage has slots given again two at a time, and all searches as long as they take.
	onePage = bounded(2, math.MaxInt32, 500)
	// fewSteps has the steps end a call.
	fewSteps = bounded(500, 20, 500)
)

// A pagedLine is a user's slots on a server of their own, given by small pages.
type pagedLine struct {
	t       *testing.T
	server  *miniredis.Miniredis
	clock   *fakeClock
	limiter *Redis
}

func newPagedLine(t *testing.T, script *redis.Script) *pagedLine {
	l := &pagedLine{t: t, server: miniredis.RunT(t), clock: newFakeClock()}
	client := redis.NewClient(&redis.Options{Addr: l.server.Addr()})
	l.limiter = NewRedis(client, Options{Timeout: time.Minute, Now: l.clock.now})
	l.limiter.booking = script
	t.Cleanup(func() {
		_ = l.limiter.Close()
		_ = client.Close()
	})
	l.server.SetTime(l.clock.now())
	return l
}

func (l *pagedLine) advance(d time.Duration) {
	l.clock.advance(d)
	l.server.SetTime(l.clock.now())
}

func (l *pagedLine) request(id string, p Policy) Request {
	return Request{User: "u", ID: id, Horizon: time.Hour, Scopes: []Scope{{General, p}}}
}

// acquire goes past the claim, which would read another's clock.
func (l *pagedLine) acquire(id string, p Policy) Decision {
	l.t.Helper()
	r := l.request(id, p)
	d, err := l.limiter.wait(l.t.Context(), &r, l.limiter.user(&r), denial{})
	if err != nil {
		l.t.Fatal(err)
	}
	return d
}

// slots are how far ahead those wait, by ID.
func (l *pagedLine) slots() map[string]time.Duration {
	l.t.Helper()
	timeline, err := l.limiter.Timeline(l.t.Context(), l.request("", Policy{}))
	if err != nil {
		l.t.Fatal(err)
	}
	ahead := map[string]time.Duration{}
	for _, b := range timeline.Bookings {
		ahead[b.ID] = b.Slot.Sub(l.clock.now())
	}
	return ahead
}

func (l *pagedLine) rest() string {
	return l.server.HGet("pushpace:{u}:limits", "rest")
}

// What is too much for one call is gone on with by those that come next, one page each,
// until all slots are by the new limits. A peek leaves the rest alone.
func TestTheRestIsGoneOnWith(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]*redis.Script{"slots": onePage, "steps": fewSteps} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			theRestIsGoneOnWith(newPagedLine(t, script), t)
		})
	}
}

func theRestIsGoneOnWith(l *pagedLine, t *testing.T) {
	t.Helper()
	old, raised := Policy{MinGap: 10 * time.Second}, Policy{MinGap: 2 * time.Second}
	for i := range 12 {
		l.acquire(fmt.Sprintf("n%02d", i), old)
	}
	l.advance(10 * time.Second)
	if d := l.acquire("n01", raised); d.Status != Granted || len(d.Moved) == 0 {
		t.Fatalf("at its slot: %+v", d)
	}
	if l.rest() == "" {
		t.Fatal("one call has given all slots again")
	}
	before := l.rest()
	if _, err := l.limiter.Peek(t.Context(), l.request("n05", raised)); err != nil || l.rest() != before {
		t.Errorf("a peek has gone on with the rest: %q, %v", l.rest(), err)
	}
	calls := 0
	for id := 2; l.rest() != ""; id++ {
		if calls++; calls > 9 {
			t.Fatalf("after %d calls the rest begins at %q", calls, l.rest())
		}
		name := fmt.Sprintf("n%02d", id)
		l.advance(l.slots()[name])
		if d := l.acquire(name, raised); d.Status != Granted {
			t.Fatalf("%s at its slot: %+v", name, d)
		}
	}
	l.spaced(raised.MinGap)
}

// spaced checks that all who wait do so by the gap.
func (l *pagedLine) spaced(gap time.Duration) {
	l.t.Helper()
	ahead := slices.Sorted(maps.Values(l.slots()))
	for i, d := range ahead {
		if want := time.Duration(i+1) * gap; (d - want).Abs() > gap/4 {
			l.t.Errorf("who waits as number %d has a slot in %v, want %v: %v", i, d, want, ahead)
			return
		}
	}
}

// Those that are due keep their slots, also where a page ends among them.
func TestAPageThatEndsAmongDueSlots(t *testing.T) {
	t.Parallel()
	l := newPagedLine(t, onePage)
	policy := Policy{MinGap: 10 * time.Second}
	for i := range 8 {
		l.acquire(fmt.Sprint("n", i), policy)
	}
	before := l.slots()
	late := before["n7"] + time.Millisecond // so that the first place behind all is ahead
	l.advance(late)
	if moved, err := l.limiter.Reschedule(t.Context(), l.request("", policy)); err != nil || len(moved) > 0 {
		t.Errorf("moved %v, %v", moved, err)
	}
	for id, ahead := range l.slots() {
		if ahead != before[id]-late {
			t.Errorf("%s, which has been due for %v, is to come in %v", id, late-before[id], ahead)
		}
	}
}

// What goes on with a later part of the line leaves the rest before it to others, but that
// other limits have all slots given again.
func TestAnEarlierRestStays(t *testing.T) {
	t.Parallel()
	l := newPagedLine(t, onePage)
	old, raised := Policy{MinGap: 10 * time.Second}, Policy{MinGap: 2 * time.Second}
	for i := range 14 {
		l.acquire(fmt.Sprintf("n%02d", i), old)
	}
	l.advance(10 * time.Second)
	l.acquire("n01", raised)
	rest := l.rest()
	if rest == "" {
		t.Fatal("one call has given all slots again")
	}
	for _, id := range []string{"n10", "n13"} { // of which a page is left, or less
		if _, err := l.limiter.Cancel(t.Context(), l.request(id, raised)); err != nil {
			t.Fatal(err)
		}
		if l.rest() != rest {
			t.Errorf("after %s was cancelled the rest begins at %q, and not at %q any more", id, l.rest(), rest)
		}
	}
	again := Policy{MinGap: 4 * time.Second}
	if _, err := l.limiter.Reschedule(t.Context(), l.request("", again)); err != nil || l.rest() != "" {
		t.Errorf("%v, the rest begins at %q", err, l.rest())
	}
	l.spaced(again.MinGap)
}

// Slots that go far back go behind all, and not between those that are still to be given
// again: these would be given again and again, and not once where they were and once behind.
func TestSlotsThatGoFarBackAreGivenTwiceAtMost(t *testing.T) {
	t.Parallel()
	l := newPagedLine(t, onePage)
	const waiting = 40
	for i := range waiting + 1 {
		l.acquire(fmt.Sprintf("n%02d", i), Policy{MinGap: time.Second})
	}
	before := l.limiter.RoundTrips()
	if _, err := l.limiter.Reschedule(t.Context(), l.request("", Policy{MinGap: 30 * time.Second})); err != nil {
		t.Fatal(err)
	}
	if n := l.limiter.RoundTrips() - before; n > waiting {
		t.Errorf("a line of %d takes %d calls, each of which gives two slots again", waiting, n)
	}
	if l.rest() != "" {
		t.Errorf("the rest begins at %q", l.rest())
	}
}

// Slots that went behind all are behind all, and fit beside each other.
func TestSlotsThatWentBehindAll(t *testing.T) {
	t.Parallel()
	second, half := Policy{MinGap: time.Second}, Policy{MinGap: 30 * time.Second}
	for name, tt := range map[string]struct {
		categories   []string
		general, own Policy
	}{
		"by a category's limits": {[]string{"a"}, second, half},
		"of two categories":      {[]string{"a", "b"}, half, Policy{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newPagedLine(t, onePage)
			for i := range 21 {
				l.ask(l.in(tt.categories[i%len(tt.categories)], fmt.Sprintf("n%02d", i), second, nil), denial{})
			}
			before := slices.Sorted(maps.Values(l.slots()))
			r := l.in(tt.categories[0], "", tt.general, &tt.own)
			for range 3 {
				if _, _, err := l.limiter.visit(t.Context(), opReschedule, &r, l.limiter.user(&r), denial{}, ""); err != nil {
					t.Fatal(err)
				}
				last := before[len(before)-1]
				for _, at := range slices.Sorted(maps.Values(l.slots())) {
					if slices.Contains(before, at) {
						continue
					}
					if at < last+second.MinGap || at < last+half.MinGap && !slices.Contains(before, last) {
						t.Fatalf("a slot is in %v, and not far enough behind one in %v: %v", at, last, l.slots())
					}
					last = at
				}
			}
		})
	}
}
