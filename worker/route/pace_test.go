package route

import (
	"testing"
	"testing/synctest"
	"time"
)

// steps has so many steps pass, of a route that is open or not, in which so many answers
// of those that have left were bad, of ten. It returns how many may leave in each step.
func (p *pace) steps(n int, now *time.Time, open bool, bad int) []int {
	const ticks = 5
	var all []int
	for range n {
		left := 0
		for range ticks {
			left += p.next(*now, open)
			*now = now.Add(paceStep / ticks)
		}
		for i := range left {
			p.note(i%10 >= bad)
		}
		all = append(all, left)
	}
	return all
}

func TestPace(t *testing.T) {
	t.Parallel()
	const least = paceLeast * int(paceStep) / int(time.Second)
	now := time.Unix(1_795_219_200, 0)
	var p pace
	about := func(what string, got []int, want ...int) {
		t.Helper()
		for i := range want {
			if want[i]*7/10 > got[i] || got[i] > want[i] {
				t.Fatalf("%s: %v leave, want about %v", what, got, want)
			}
		}
	}
	p.begin()
	about("at first", p.steps(4, &now, true, 0), least, 2*least, 4*least, 8*least)
	about("while one in ten fails", p.steps(2, &now, true, 1), 16*least, 32*least)
	about("while two in ten fail", p.steps(4, &now, true, 2), 64*least, 32*least, 16*least, 8*least)
	about("when they are good again", p.steps(3, &now, true, 0), 4*least, 8*least, 16*least)
	about("while it is closed", p.steps(2, &now, false, 0), 1, 1)
	about("when it opens", p.steps(2, &now, true, 0), 8*least, 16*least)
	p.good.Store(0)
	about("without an answer", p.steps(1, &now, true, 0), 16*least)
	for range 10 {
		p.steps(1, &now, false, 0)
	}
	p.good.Store(0)
	about("after a while", p.steps(8, &now, true, 0), least, 2*least, 4*least, 8*least, 16*least, 32*least, 64*least, 128*least)
	p.steps(20, &now, true, 0)
	about("at the top", p.steps(1, &now, true, 0), paceMost/paceLeast*least)
	p.begin()
	about("for the next ones", p.steps(2, &now, true, 0), least, 2*least)
}

// A route lets none leave while it is closed, one at a time until it is seen to work,
// and none while many wait for a place.
func TestReturning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const open = 10 * paceStep
		r := &Route{Bulkhead: newBulkhead(1), breaker: &breaker{openFor: open, closed: func() {}, changed: func(bool) {}}}
		returning := func(what string, least, most int, toSee bool) {
			t.Helper()
			time.Sleep(paceStep)
			n, see := r.Returning(time.Now())
			if n < least || n > most || see != toSee {
				t.Errorf("%s: %d may leave, to see: %t; want %d to %d, %t", what, n, see, least, most, toSee)
			}
		}
		r.breaker.trip(true)
		returning("closed", 0, 0, true)
		time.Sleep(open)
		returning("half open", 1, 1, true)
		done, ok := r.breaker.allow(time.Now())
		if !ok {
			t.Fatal("none is let through")
		}
		returning("while one is under way", 0, 0, true)
		done(Lesson{shows: works})
		returning("open", 1, paceLeast, false)
		r.Bulkhead.enter(1)
		for range maxWaiting / 2 {
			r.Bulkhead.enter(1)
		}
		returning("when many wait for a place", 0, 0, false)
	})
}
