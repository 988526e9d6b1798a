package meter

import (
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// An Algorithm is how a meter counts, by its name in the configuration.
type Algorithm string

// The algorithms. TokenBucket is what an empty one stands for.
const (
	TokenBucket   Algorithm = "token_bucket"
	LeakyBucket   Algorithm = "leaky_bucket"
	FixedWindow   Algorithm = "fixed_window"
	SlidingWindow Algorithm = "sliding_window"
)

// A Spec is what a meter allows. It is a value, and may change from one Take to the
// next: a changed one neither refills what is used nor leaves a debt beyond its burst.
type Spec struct {
	Algorithm Algorithm
	// Rates are what is allowed: one, or several at once for the windows, of which all
	// allow or none is charged.
	Rates []throttle.Rate
	// Burst is how many units a bucket holds, 0 for the rate's count.
	Burst int
	// Cells is of how many parts a sliding window is, 0 for 10.
	Cells int
	// Ramp is how long a bucket takes from silence to its rate, 0 for none.
	Ramp time.Duration
	// Life is within which time of the ask a unit is used or lapses; more than 0
	// turns a bucket's rate into a promise: at most Count units are used in any
	// Period, by any number of workers.
	Life time.Duration
}
