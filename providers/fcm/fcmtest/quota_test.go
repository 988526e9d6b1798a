package fcmtest

import (
	"testing"
	"time"
)

var midnight = time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)

// taken counts how many of n messages at now are taken.
func taken(q *quotas, name string, now time.Time, n int) int {
	took := 0
	for range n {
		if _, ok := q.take(name, now); ok {
			took++
		}
	}
	return took
}

// A window takes its count, and as much again when it ends: twice the count within
// an instant, around a border that follows no clock.
func TestAWindowIsFullAgain(t *testing.T) {
	t.Parallel()
	q := &quotas{of: []Quota{{Count: 5, Per: time.Minute, Begins: midnight.Add(17 * time.Second)}}}
	border := midnight.Add(time.Hour + 17*time.Second)
	before := border.Add(-time.Nanosecond)
	if got := taken(q, "p", before, 9); got != 5 {
		t.Errorf("%d before the border, want 5", got)
	}
	if wait, ok := q.take("p", border.Add(-20*time.Second)); ok || wait != 20*time.Second {
		t.Errorf("used up for %s, want 20s", wait)
	}
	if got := taken(q, "p", border, 9); got != 5 {
		t.Errorf("%d at the border, want 5", got)
	}
	if got := taken(q, "p", border.Add(time.Minute-1), 9); got != 0 {
		t.Errorf("%d at the end of the window, want none", got)
	}
	if got := taken(q, "p", border.Add(10*time.Minute), 9); got != 5 {
		t.Errorf("%d much later, want 5: what is not used lapses", got)
	}
	if got := taken(q, "another", border.Add(10*time.Minute), 9); got != 5 {
		t.Errorf("%d of another project, want 5", got)
	}
}

// Where the windows lie is drawn for each project.
func TestWindowsAreDrawn(t *testing.T) {
	t.Parallel()
	q := &quotas{of: []Quota{{Count: 1, Per: time.Minute}}}
	waits := map[time.Duration]bool{}
	for _, project := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		taken(q, project, midnight, 1)
		wait, ok := q.take(project, midnight)
		if ok || wait <= 0 || wait > time.Minute {
			t.Errorf("used up for %s", wait)
		}
		if _, ok := q.take(project, midnight.Add(wait)); !ok {
			t.Errorf("used up after %s", wait)
		}
		if again, _ := q.take(project, midnight.Add(wait)); again != time.Minute {
			t.Errorf("the next window is %s long", again)
		}
		waits[wait] = true
	}
	if len(waits) < 2 {
		t.Errorf("all windows lie alike: %v", waits)
	}
}

// Of several quotas all take a message or none counts it.
func TestQuotasAgree(t *testing.T) {
	t.Parallel()
	q := &quotas{of: []Quota{{Count: 2, Per: time.Minute, Begins: midnight}, {Count: 3, Per: time.Hour, Begins: midnight}}}
	if got := taken(q, "d", midnight, 9); got != 2 {
		t.Errorf("%d in the first minute, want 2", got)
	}
	if wait, _ := q.take("d", midnight); wait != time.Minute {
		t.Errorf("used up for %s, want 1m", wait)
	}
	if got := taken(q, "d", midnight.Add(time.Minute), 9); got != 1 {
		t.Errorf("%d in the second minute, want 1: the hour has 3, and counts none that the minute refuses", got)
	}
	if wait, _ := q.take("d", midnight.Add(time.Minute)); wait != 59*time.Minute {
		t.Errorf("used up for %s, want 59m", wait)
	}
}

// What is given back may be taken again in its own window, and in no other.
func TestGivenBack(t *testing.T) {
	t.Parallel()
	q := &quotas{of: []Quota{{Count: 1, Per: time.Minute, Begins: midnight}}}
	q.giveBack("p", midnight)
	taken(q, "p", midnight, 1)
	q.giveBack("p", midnight)
	q.giveBack("p", midnight)
	if got := taken(q, "p", midnight, 9); got != 1 {
		t.Errorf("%d after one came back, want 1", got)
	}
	if got := taken(q, "p", midnight.Add(time.Minute), 9); got != 1 {
		t.Errorf("%d in the next window, want 1", got)
	}
	q.giveBack("p", midnight)
	if got := taken(q, "p", midnight.Add(time.Minute), 9); got != 0 {
		t.Errorf("%d after one of the window before came back, want none", got)
	}
}

// A burst comes back one by one, and never becomes more.
func TestBurst(t *testing.T) {
	t.Parallel()
	b := &bursts{burst: Burst{Count: 20, Every: 3 * time.Minute}}
	take := func(at time.Time) (took int) {
		for range 30 {
			if _, ok := b.take("d", at); ok {
				took++
			}
		}
		return took
	}
	if got := take(midnight); got != 20 {
		t.Errorf("%d at once, want 20", got)
	}
	if wait, ok := b.take("d", midnight.Add(time.Minute)); ok || wait != 2*time.Minute {
		t.Errorf("none for %s, want 2m", wait)
	}
	if got := take(midnight.Add(9 * time.Minute)); got != 3 {
		t.Errorf("%d after 9 minutes, want 3", got)
	}
	if got := take(midnight.Add(24 * time.Hour)); got != 20 {
		t.Errorf("%d after a day, want 20", got)
	}
}
