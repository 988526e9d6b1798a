package redisconn

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/redisreply"
)

// A Node is the present state of one server of a Redis.
type Node struct {
	Address string `json:"address"`
	// Error is why the other fields are unknown; "" if the server answers.
	Error   string `json:"error,omitempty"`
	Version string `json:"version,omitempty"`
	// UsedMemory and MaxMemory are in bytes; MaxMemory is 0 without a bound.
	UsedMemory int64 `json:"used_memory"`
	MaxMemory  int64 `json:"max_memory"`
	// Eviction is the policy for full memory.
	Eviction string `json:"eviction,omitempty"`
	// AppendOnly is true if the server logs its writes. LastSave is when it last wrote a snapshot;
	// zero if there is none since its start, or if that is unknown. Failing is why the server does
	// not persist as configured.
	AppendOnly bool      `json:"append_only"`
	LastSave   time.Time `json:"last_save,omitzero"`
	Failing    string    `json:"failing,omitempty"`
	// AheadBy is how far the server's clock is ahead of this machine's, to within half a round trip.
	AheadBy time.Duration `json:"ahead_by_ns"`

	// The fields below are set only for a master of a Cluster. Replicas is the number of replicas
	// that have all of the master's keys; nil if unknown.
	Replicas *int `json:"replicas,omitempty"`
	// Shards are the master's shards, by Shard.Number.
	Shards []int `json:"shards,omitzero"`
	// Waiting is the number of notifications that wait in these shards; nil if unknown. If some of
	// the shards do not answer now, WaitingAt is when these were last counted; else it is zero.
	Waiting   *int64    `json:"waiting,omitempty"`
	WaitingAt time.Time `json:"waiting_at,omitzero"`
}

// ReadNodes returns the state of each node that holds keys, by address, without its shards. The
// error is about the Cluster as a whole. It stops waiting for a hanging node early enough to report
// the other nodes.
func ReadNodes(ctx context.Context, c redis.UniversalClient) ([]Node, error) {
	var (
		mu      sync.Mutex
		servers []*redis.Client
	)
	known, cancel := within(ctx, .25) // the node that is asked for the map of hash slots may hang: then the previous map counts
	err := eachNode(known, c, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		servers = append(servers, node)
		return nil
	})
	cancel()
	if len(servers) > 1 {
		ctx, cancel = within(ctx, .75)
		defer cancel()
	}
	nodes := make([]Node, len(servers))
	var all sync.WaitGroup
	for i, node := range servers {
		all.Go(func() { nodes[i] = readNode(ctx, node) })
	}
	all.Wait()
	slices.SortFunc(nodes, func(a, b Node) int { return cmp.Compare(a.Address, b.Address) })
	return nodes, err
}

func readNode(ctx context.Context, c *redis.Client) Node {
	n := Node{Address: c.Options().Addr}
	asked := time.Now()
	clock, err := c.Time(ctx).Result()
	if err != nil {
		n.Error = err.Error()
		return n
	}
	n.AheadBy = clock.Sub(asked.Add(time.Since(asked) / 2))
	text, err := c.Info(ctx).Result()
	if err != nil {
		if !redisreply.Answered(err) {
			n.Error = err.Error()
		}
		return n // the user may not call INFO
	}
	n.readInfo(fields(text), clock)
	return n
}

// readInfo sets the fields from a reply to INFO. now is the server's time of the reply.
func (n *Node) readInfo(info map[string]string, now time.Time) {
	n.Version, n.Eviction = info["redis_version"], info["maxmemory_policy"]
	n.UsedMemory, _ = strconv.ParseInt(info["used_memory"], 10, 64)
	n.MaxMemory, _ = strconv.ParseInt(info["maxmemory"], 10, 64)
	n.AppendOnly = info["aof_enabled"] == "1"
	saved, err := strconv.ParseInt(info["rdb_last_save_time"], 10, 64)
	uptime, _ := strconv.ParseInt(info["uptime_in_seconds"], 10, 64)
	if started := now.Unix() - uptime; err == nil && saved > started+1 { // without a snapshot, Redis reports its start, to the second
		n.LastSave = time.Unix(saved, 0).UTC()
	}
	if info["cluster_enabled"] == "1" {
		n.Replicas = new(replicas(info))
	}
	switch {
	case n.AppendOnly && info["aof_last_write_status"] == "err":
		n.Failing = "its log cannot be written"
	case info["rdb_last_bgsave_status"] == "err":
		n.Failing = "its last snapshot failed"
	}
}
