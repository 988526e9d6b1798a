package violations

import (
	"math"
	"time"
)

// Within returns the lateness that a share of the sorted latenesses does not exceed; 0 for an empty
// list. share is above 0 and at most 1.
func Within(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(math.Ceil(share*float64(len(sorted))))-1]
}
