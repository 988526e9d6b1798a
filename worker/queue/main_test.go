package queue

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/worker/roles"
)

func TestMain(m *testing.M) {
	redistest.Parallel()
	goleak.VerifyTestMain(m, redistest.Dialing())
}

// leads is the role of a worker that is alone.
func leads() roles.Role { return roles.Leads }
