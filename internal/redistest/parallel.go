package redistest

import (
	"flag"
	"os"
	"runtime/debug"
	"strconv"

	"github.com/pushpace/pushpace/internal/base/racing"
)

// maxParallel is the number of parallel tests of a package. Tests mostly wait for Redis, timers and
// processes. go test's default, the number of processors, would leave processors idle. With many
// more, tests get too little time for their checks.
const maxParallel = 16

// gcPercent makes garbage collection rare: the embedded Redis creates a Lua interpreter for each
// script, which fills a heap of a few megabytes a hundred times a second.
const gcPercent = 400

// Parallel sets the number of parallel tests, unless -test.parallel is given, and gcPercent, unless
// GOGC is set. It is for TestMain.
func Parallel() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	n := maxParallel
	if racing.Enabled { // tests need more processor time
		n = maxParallel * 3 / 4
	}
	_ = flag.Set("test.parallel", strconv.Itoa(n)) // the flag exists
	flag.Parse()                                   // -test.parallel may override the number
}
