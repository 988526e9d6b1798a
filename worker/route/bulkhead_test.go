package route

import (
	"testing"
	"time"
)

func TestSkipUntil(t *testing.T) {
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
		b, now := newBulkhead(4), time.Now()
		for range tt.taken {
			b.places <- now.UnixNano()
		}
		b.waiting.Store(int64(tt.waiting))
		b.changed.Store(now.Add(-tt.still).UnixNano())
		b.meanHold.Store(int64(tt.usual))
		want := time.Time{}
		if tt.want > 0 {
			want = now.Add(tt.want)
		}
		if got := b.skipUntil(now); !got.Equal(want) {
			t.Errorf("%s: %s, want %s", name, got.Sub(now), tt.want)
		}
	}
}

// The more there is for a stuck provider, the less often it comes back.
func TestSkippingSpreads(t *testing.T) {
	t.Parallel()
	b, now := newBulkhead(1), time.Now()
	b.places <- 0
	b.changed.Store(now.Add(-time.Hour).UnixNano())
	first := b.skipUntil(now)
	b.skippedUntil(first, 100_000)
	if got := b.skipUntil(now).Sub(first); got != 10*time.Second {
		t.Errorf("after 100,000 the next stays for %s longer", got)
	}
	if got := b.skipUntil(now.Add(time.Minute)).Sub(now); got != time.Minute+longestBusy {
		t.Errorf("a minute later it is %s", got)
	}
}

func TestABulkheadLearnsHowLongItsPlacesAreTaken(t *testing.T) {
	t.Parallel()
	b := newBulkhead(4)
	for i := range int64(100) {
		b.places <- i
		b.release(i + int64(time.Second))
	}
	if usual := time.Duration(b.meanHold.Load()); usual < 990*time.Millisecond || usual > time.Second {
		t.Errorf("%s", usual)
	}
}
