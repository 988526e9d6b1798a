package redisconn

import (
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
)

// A Redis without a snapshot reports the time of its start as the time of the last save.
func TestStartTimeIsNoSnapshot(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	for name, c := range map[string]struct {
		saved, uptime string
		want          int64
	}{
		"never":              {"999900", "100", 0},
		"never, a tick off":  {"999901", "100", 0},
		"since the start":    {"999950", "100", 999950},
		"before there is it": {"", "100", 0},
	} {
		var n Node
		n.readInfo(map[string]string{"rdb_last_save_time": c.saved, "uptime_in_seconds": c.uptime}, now)
		if got := n.LastSave; got.IsZero() != (c.want == 0) || c.want != 0 && got.Unix() != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	server := redistest.Start(t)
	nodes, err := ReadNodes(t.Context(), server.Client(t))
	if err != nil || len(nodes) != 1 || !nodes[0].LastSave.IsZero() || nodes[0].Version == "" {
		t.Errorf("a fresh one: %+v, %v", nodes, err)
	}
}
