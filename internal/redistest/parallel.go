package redistest

import (
	"flag"
	"os"
	"runtime/debug"
	"strconv"

	"github.com/pushpace/pushpace/internal/base/racing"
)

// atOnce is how many tests of a package run at once that mostly wait: for Redis, for
// timers and for other processes. As many as there are processors, which go test would
// run, leave these idle; of many more, each gets so little of them that what it wants to
// see in time is over.
const atOnce = 16

// gcPercent has little garbage be looked for: the embedded Redis makes a new Lua for each
// script, so that a heap of a few megabytes is full again a hundred times a second.
const gcPercent = 400

// Parallel has a test binary run so many tests at once, unless it was told how many, and
// collect its garbage seldom, unless GOGC says when. It is for TestMain.
func Parallel() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	n := atOnce
	if racing.Watched { // they want more of the processors
		n = atOnce * 3 / 4
	}
	_ = flag.Set("test.parallel", strconv.Itoa(n)) // there is such a flag
	flag.Parse()                                   // may set another number
}
