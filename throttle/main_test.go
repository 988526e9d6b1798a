package throttle

import (
	"flag"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/pushpace/pushpace/internal/base/racing"
	"github.com/pushpace/pushpace/internal/redistest"
)

func TestMain(m *testing.M) {
	_ = flag.Set("rapid.checks", strconv.Itoa(racing.Fewer(histories)))
	redistest.Parallel() // parses the flags
	goleak.VerifyTestMain(m, redistest.Dialing())
}
