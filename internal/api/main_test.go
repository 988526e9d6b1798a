package api

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/pushpace/pushpace/internal/redistest"
)

func TestMain(m *testing.M) {
	// a connection that is closed waits half a second for its client
	goleak.VerifyTestMain(m, redistest.Dialing(), goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}
