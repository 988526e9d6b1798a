package app

import (
	"testing"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
)

// A process without metrics reports its readiness too: the checks need no telemetry.
func TestLossCheckWithoutMetrics(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	s := &System{client: client, Records: store.NewRecords(client, redistest.Prefix(), 0)}
	if text := s.lost(t.Context()); text != "" {
		t.Error(text)
	}
}
