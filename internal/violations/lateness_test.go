package violations

import (
	"testing"
	"time"
)

func TestWithinReturnsQuantileOfLateness(t *testing.T) {
	t.Parallel()
	if got := Within(nil, 0.99); got != 0 {
		t.Errorf("for an empty list %v", got)
	}
	var sorted []time.Duration
	for i := range time.Duration(200) {
		sorted = append(sorted, i+1)
	}
	for share, want := range map[float64]time.Duration{0.5: 100, 0.99: 198, 1: 200, 0.001: 1} {
		if got := Within(sorted, share); got != want {
			t.Errorf("%v: %d, want %d", share, got, want)
		}
	}
}
