//go:build unix

package main

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/control"
)

// A clusterRig is a Cluster of three masters in 8 shards that keeps every write, workers,
// and stand-ins for the providers. With PUSHPACE_SOAK its tests take larger numbers.
type clusterRig struct {
	*crashSite
	nodes    []*redistest.Server
	policy   throttle.Policy
	producer *push.Producer
	records  *ledger.Records
	workers  []*program
}

func newClusterRig(t *testing.T, policy throttle.Policy) *clusterRig {
	t.Helper()
	aboutProcesses(t, "runs several of Redis's and several of the program")
	nodes := redistest.StartCluster(t, 3, redistest.AppendOnly(),
		redistest.Args("--cluster-require-full-coverage", "no", "--cluster-node-timeout", "5000"))
	r := &clusterRig{crashSite: standInsBeside(t, addressOf(nodes), policy, 2*time.Millisecond), nodes: nodes, policy: policy}
	shared, end := pipeline.Share(connect(t, addressOf(nodes)), pipeline.Options{Timeout: redisTimeout}) // as the program does
	t.Cleanup(end)
	r.client = shared
	r.env = append(r.env, "PUSHPACE_WORKER__SHUTDOWN_TIMEOUT=11s")
	r.producer, r.records = push.NewProducer(r.client, "", 0), ledger.NewRecords(r.client, "", 0)
	return r
}

// redisTimeout is the configuration's for what is asked of a Redis.
const redisTimeout = 2 * time.Second

// addressOf is a Cluster's in the configuration.
func addressOf(nodes []*redistest.Server) string {
	var all []string
	for _, node := range nodes {
		all = append(all, strconv.Quote(node.Addr()))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// soaking is the larger number with PUSHPACE_SOAK, else the other.
func soaking(large, small int) int {
	if os.Getenv("PUSHPACE_SOAK") != "" {
		return large
	}
	return small
}

// work starts so many workers.
func (r *clusterRig) work(t *testing.T, n int) {
	t.Helper()
	for range n {
		r.workers = append(r.workers, r.serve(t))
	}
}

// rest waits until so many were accepted and all have ended, ends the workers, and expects
// that the sums are exact. It answers how many ended how.
func (r *clusterRig) rest(t *testing.T, accepted int) ledger.Counts {
	t.Helper()
	var counts ledger.Counts
	var err error
	if !eventually.Within(5*time.Minute, func() bool {
		counts, err = r.records.Counts(t.Context())
		return err == nil && counts.Accepted == int64(accepted) && counts.Waiting() == 0
	}) {
		t.Fatalf("of %d not all have ended: %+v, %v", accepted, counts, err)
	}
	(&site{}).stop(t, r.workers...)
	var audit control.Audit
	p := start(t, r.setup, "audit", "--json")
	status := p.wait(t, time.Minute)
	if err := json.Unmarshal([]byte(p.stdout.String()), &audit); err != nil || status != exitDone || audit.Difference != 0 {
		t.Errorf("audit: exit status %d: %s%s, %v", status, &p.stdout, &p.stderr, err)
	}
	return counts
}
