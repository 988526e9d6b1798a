package operate

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/worker/control"
)

// AddShards adds to each master of a Cluster its shards, and the number of notifications that wait
// in them: by the sums just read and, for a shard that did not answer, by the newest count that the
// records or these workers remember. It does not query the masters. It leaves servers outside a
// Cluster unchanged.
func AddShards(ctx context.Context, client redis.UniversalClient, records *store.Records, nodes []redisconn.Node, counts map[int]store.Counts, workers []control.Snapshot) error {
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
	last := map[int]store.LastWaiting{}
	older := records.LastWaitingBefore(time.Now())
	for i := range workers {
		older = append(older, workers[i].Silent...)
	}
	for _, w := range older {
		if w.At.After(last[w.Shard].At) {
			last[w.Shard] = w
		}
	}
	for i := range nodes {
		n := &nodes[i]
		n.Shards = orEmpty(on[n.Address])
		n.Waiting, n.WaitingAt = waitingIn(n.Shards, counts, last)
	}
	return nil
}

// waitingIn returns how many notifications wait in the shards, nil if a shard's count is unknown,
// and the time of the oldest remembered count; zero if all counts are new.
func waitingIn(shards []int, now map[int]store.Counts, last map[int]store.LastWaiting) (*int64, time.Time) {
	var sum int64
	var first time.Time
	for _, shard := range shards {
		if counts, read := now[shard]; read {
			sum += counts.Waiting()
			continue
		}
		w, known := last[shard]
		if !known {
			return nil, time.Time{}
		}
		if sum += w.Waiting; first.IsZero() || w.At.Before(first) {
			first = w.At
		}
	}
	return &sum, first
}
