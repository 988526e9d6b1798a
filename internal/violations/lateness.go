package violations

import (
	"math"
	"time"
)

// Within returns the lateness that this share of the sorted ones, above 0 and up to 1, does not
// exceed; 0 for none.
func Within(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(math.Ceil(share*float64(len(sorted))))-1]
}
