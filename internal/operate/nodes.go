package operate

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/redisconn"
)

// Place adds to the masters of a Cluster which shards lie on each, and how many notifications
// wait there: by the sums that were just read, and in a shard that did not answer by the last
// ones that the records know. It asks none of them. Servers that are no Cluster it leaves as
// they are.
func Place(ctx context.Context, client redis.UniversalClient, records *ledger.Records, nodes []redisconn.Node, counts map[int]ledger.Counts) error {
	cluster, several := pipeline.OfCluster(client)
	if !several {
		return nil
	}
	shards, err := records.All(ctx)
	if err != nil {
		return err
	}
	on := make(map[string][]int, len(nodes))
	for _, s := range shards {
		master, err := cluster.MasterForKey(ctx, s.Key("counts"))
		if err != nil {
			return err
		}
		address := master.Options().Addr
		on[address] = append(on[address], s.Number)
	}
	for i := range nodes {
		n := &nodes[i]
		n.Shards = orEmpty(on[n.Address])
		n.Waiting, n.WaitingAt = waitingIn(n.Shards, records, counts)
	}
	return nil
}

// waitingIn returns how many wait in the shards, nil where that is not known of one, and when
// that was counted first of those that have no sums; zero where all have.
func waitingIn(shards []int, records *ledger.Records, counts map[int]ledger.Counts) (*int64, time.Time) {
	var sum int64
	var asked []time.Time
	for _, shard := range shards {
		if now, read := counts[shard]; read {
			sum += now.Waiting()
			continue
		}
		n, at := records.Waited(shard)
		if at.IsZero() {
			return nil, at
		}
		sum, asked = sum+n, append(asked, at.UTC())
	}
	if asked == nil {
		return &sum, time.Time{}
	}
	return &sum, slices.MinFunc(asked, time.Time.Compare)
}
