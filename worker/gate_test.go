package worker

import (
	"testing"
	"time"
)

func TestParkUntil(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		taken, waiting int
		still, usual   time.Duration
		want           time.Duration
	}{
		"a place is free":           {3, 0, time.Minute, 0, 0},
		"it moves":                  {4, 9, 50 * time.Millisecond, 0, 0},
		"none was ever left":        {4, 2, 100 * time.Millisecond, 0, 2 * time.Second},
		"few stand before it":       {4, 1, 400 * time.Millisecond, 0, 0},
		"slow, and as usual":        {4, 9, 200 * time.Millisecond, 100 * time.Millisecond, 0},
		"slow, and longer":          {4, 9, 300 * time.Millisecond, 100 * time.Millisecond, 2 * time.Second},
		"slower than any should be": {4, 0, 500 * time.Millisecond, time.Minute, 2 * time.Second},
		"for long":                  {4, 0, 5 * time.Second, 0, 5 * time.Second},
		"for ever":                  {4, 0, time.Hour, 0, longestBusy},
	} {
		g, now := newGate(4), time.Now()
		for range tt.taken {
			g.places <- now.UnixNano()
		}
		g.waiting.Store(int64(tt.waiting))
		g.moved.Store(now.Add(-tt.still).UnixNano())
		g.usual.Store(int64(tt.usual))
		want := time.Time{}
		if tt.want > 0 {
			want = now.Add(tt.want)
		}
		if got := g.parkUntil(now); !got.Equal(want) {
			t.Errorf("%s: %s, want %s", name, got.Sub(now), tt.want)
		}
	}
}

// The more there is for a stuck provider, the less often it comes back.
func TestParkingSpreads(t *testing.T) {
	t.Parallel()
	g, now := newGate(1), time.Now()
	g.places <- 0
	g.moved.Store(now.Add(-time.Hour).UnixNano())
	first := g.parkUntil(now)
	g.parkedTo(first, 100_000)
	if got := g.parkUntil(now).Sub(first); got != 10*time.Second {
		t.Errorf("after 100,000 the next stays for %s longer", got)
	}
	if got := g.parkUntil(now.Add(time.Minute)).Sub(now); got != time.Minute+longestBusy {
		t.Errorf("a minute later it is %s", got)
	}
}

func TestAGateLearnsHowLongItsPlacesAreTaken(t *testing.T) {
	t.Parallel()
	g := newGate(4)
	for i := range int64(100) {
		g.places <- i
		g.leave(i + int64(time.Second))
	}
	if usual := time.Duration(g.usual.Load()); usual < 990*time.Millisecond || usual > time.Second {
		t.Errorf("%s", usual)
	}
}
