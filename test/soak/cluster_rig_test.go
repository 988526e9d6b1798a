//go:build soak && unix

package soak

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/rig"
	"github.com/pushpace/pushpace/throttle"
)

// A clusterRig is a Cluster of three masters with 8 shards that persists every write, with workers and
// stand-ins for the providers.
type clusterRig struct {
	*rig.CrashSite
	nodes    []*redistest.Server // the masters at the start
	replicas []*redistest.Server // by the index of the master in nodes; nil without replicas
	options  []redistest.Option  // of each server
	policy   throttle.Policy
	producer *push.Producer
	records  *store.Records
	workers  []*rig.Program
}

// newClusterRig starts the servers with further options.
func newClusterRig(t *testing.T, policy throttle.Policy, opts ...redistest.Option) *clusterRig {
	t.Helper()
	opts = append([]redistest.Option{redistest.AppendOnly(), redistest.Args("--cluster-require-full-coverage", "no", "--cluster-node-timeout", "5000")}, opts...)
	nodes := redistest.StartCluster(t, 3, opts...)
	r := &clusterRig{CrashSite: rig.StandInsBeside(t, rig.AddressOf(nodes), policy, 2*time.Millisecond), nodes: nodes, options: opts, policy: policy}
	r.Env = append(r.Env, "PUSHPACE_WORKER__SHUTDOWN_TIMEOUT=11s")
	r.connect(t, rig.AddressOf(nodes))
	return r
}

// connect connects the rig's own client; address may add further Redis settings.
func (r *clusterRig) connect(t *testing.T, address string) {
	t.Helper()
	shared, end := pipeline.Share(rig.Connect(t, address), pipeline.Options{Timeout: redisTimeout}) // as the program does
	t.Cleanup(end)
	r.Client, r.producer, r.records = shared, push.NewProducer(shared, "", 0), store.NewRecords(shared, "", 0)
}

// acknowledge makes all writes wait for a replica.
func (r *clusterRig) acknowledge(t *testing.T) {
	t.Helper()
	r.Env = append(r.Env, "PUSHPACE_REDIS__ACKNOWLEDGED=1")
	r.connect(t, rig.AddressOf(r.nodes)+", acknowledged: 1")
}

// newReplicatedRig returns a rig with a replica for each master. A replica replaces its master two
// seconds after a failure.
func newReplicatedRig(t *testing.T, policy throttle.Policy, opts ...redistest.Option) *clusterRig {
	t.Helper()
	r := newClusterRig(t, policy, append(opts, redistest.Args("--cluster-node-timeout", "2000"))...)
	for _, master := range r.nodes {
		r.replicas = append(r.replicas, redistest.Replica(t, master, slices.Concat(r.nodes, r.replicas), r.options...))
	}
	return r
}

// redisTimeout is the configured time-out of Redis calls.
const redisTimeout = 2 * time.Second

// work starts n workers.
func (r *clusterRig) work(t *testing.T, n int) {
	t.Helper()
	for range n {
		r.workers = append(r.workers, r.Serve(t))
	}
}

// rest waits until that many notifications are accepted and all have ended, ends the workers, and
// expects exact sums. It returns the counts by end.
func (r *clusterRig) rest(t *testing.T, accepted int) store.Counts {
	t.Helper()
	var counts store.Counts
	var err error
	if !eventually.Within(5*time.Minute, func() bool {
		counts, err = r.records.Counts(t.Context())
		return err == nil && counts.Accepted == int64(accepted) && counts.Waiting() == 0
	}) {
		p := rig.Start(t, r.Setup, "waiting", "--json")
		p.Wait(t)
		t.Fatalf("of %d not all have ended: %+v, %v; those that wait: %s%s", accepted, counts, err, &p.Stdout, &p.Stderr)
	}
	r.Stop(t, r.workers...)
	var audit inspect.Audit
	p := rig.Start(t, r.Setup, "audit", "--json")
	status := p.Wait(t)
	if err := json.Unmarshal([]byte(p.Stdout.String()), &audit); err != nil || status != rig.Done || audit.Difference != 0 {
		t.Errorf("audit: exit status %d: %s%s, %v", status, &p.Stdout, &p.Stderr, err)
	}
	return counts
}
