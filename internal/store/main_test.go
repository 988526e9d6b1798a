package store_test

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"github.com/pushpace/pushpace/internal/base/racing"
	"github.com/pushpace/pushpace/internal/redistest"
)

// histories counts the random histories of a test.
const histories = 15

func TestMain(m *testing.M) {
	_ = flag.Set("rapid.checks", strconv.Itoa(racing.Fewer(histories)))
	_ = flag.Set("rapid.steps", "60")
	redistest.Parallel() // parses the flags
	os.Exit(m.Run())
}
