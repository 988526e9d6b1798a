package route

import (
	"testing"
	"testing/synctest"
	"time"
)

// push sends one push with such an answer, and reports whether the breaker let it.
func (b *breaker) push(s shows) bool {
	done, ok := b.allow(time.Now())
	if ok {
		done(Lesson{shows: s})
	}
	return ok
}

func TestBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var changes []bool
		closed := 0
		b := &breaker{openFor: 5 * time.Second, opens: func() {}, changed: func(open bool) { changes = append(changes, open) }, closed: func() { closed++ }}
		want := func(what string, left time.Duration) {
			t.Helper()
			if got := b.left(time.Now()); got != left {
				t.Errorf("%s: closed for %s, want %s", what, got, left)
			}
		}
		old, _ := b.allow(time.Now()) // before the trouble
		for range 20 {
			b.push(fails)
		}
		want("failures that are no trouble of the route", 0)
		b.trip(true)
		want("tripped", 5*time.Second)
		if b.push(works) {
			t.Error("an open breaker lets a push through")
		}
		time.Sleep(2 * time.Second)
		b.trip(true)
		want("tripped again two seconds later", 3*time.Second)
		old(Lesson{shows: works})
		want("after the answer to a push from before", 3*time.Second)

		time.Sleep(3*time.Second + 1)
		want("before the probe", 0)
		probe, ok := b.allow(time.Now())
		want("during the probe", probeWait)
		if !ok || b.push(works) {
			t.Error("want one probe, and no more")
		}
		probe(Lesson{shows: fails})
		want("after a probe that failed", 5*time.Second)

		time.Sleep(5*time.Second + 1)
		b.push(nothingYet)
		if want("after a probe that showed nothing", 0); !b.isOpen() || closed != 0 {
			t.Error("it closes without a probe that worked")
		}
		b.push(works)
		if want("after a probe that worked", 0); b.isOpen() || closed != 1 {
			t.Errorf("open: %t, closed %d times", b.isOpen(), closed)
		}

		b.trip(false) // for a pause, which is reported apart
		want("tripped for a pause", 5*time.Second)
		time.Sleep(5*time.Second + 1)
		b.push(works)
		want("probed after the pause", 0)
		if len(changes) != 2 || !changes[0] || changes[1] {
			t.Errorf("it reports %v, want open and closed once", changes)
		}
	})
}
