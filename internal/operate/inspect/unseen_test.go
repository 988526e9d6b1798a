package inspect

import (
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/worker/control"
)

// While Redis is full, workers cannot publish snapshots, so a missing snapshot does not mean a
// missing worker.
func TestFullRedisExplainsMissingSnapshots(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	if err := control.CheckSnapshotWrites(t.Context(), client, ""); err != nil {
		t.Fatal(err)
	}
	if keys := client.Keys(t.Context(), "*").Val(); len(keys) > 0 {
		t.Errorf("left behind: %q", keys)
	}
	if err := client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	unseen := redisreply.Of(control.CheckSnapshotWrites(t.Context(), client, ""))
	if unseen != redisreply.Full {
		t.Fatalf("%q", unseen)
	}
	at := waitInput{now: time.Now(), record: &store.Record{}, job: &store.Place{State: store.JobPending}, unseen: unseen}
	if w := at.waits(); w.For != ForWorker || !strings.HasPrefix(w.Reason, "Redis is full (OOM)") {
		t.Errorf("%+v", w)
	}
}
