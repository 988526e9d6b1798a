package limits

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/pushpace/pushpace/internal/redistest"
)

func TestMain(m *testing.M) {
	redistest.Parallel()
	commandTimeout = redistest.Patience // a busy machine stalls for seconds
	goleak.VerifyTestMain(m, redistest.Dialing())
}
