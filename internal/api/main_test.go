package api

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/pushpace/pushpace/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, redistest.Dialing()) }
