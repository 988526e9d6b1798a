package redistest

import (
	"flag"
	"strconv"

	"github.com/pushpace/pushpace/internal/base/racing"
)

// atOnce is how many tests of a package run at once that mostly wait: for Redis, for
// timers and for other processes. As many as there are processors, which go test would
// run, leave these idle; of many more, each gets so little of them that what it wants to
// see in time is over.
const atOnce = 16

// Parallel has a test binary run so many tests at once, unless it was told how many. It is
// for TestMain.
func Parallel() {
	n := atOnce
	if racing.Watched { // they want more of the processors
		n = atOnce * 3 / 4
	}
	_ = flag.Set("test.parallel", strconv.Itoa(n)) // there is such a flag
	flag.Parse()                                   // may set another number
}
