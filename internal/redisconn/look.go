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

// A Node is how one server of a Redis is right now.
type Node struct {
	Address string `json:"address"`
	// Error is why nothing else is known; "" when it answers.
	Error   string `json:"error,omitempty"`
	Version string `json:"version,omitempty"`
	// UsedMemory and MaxMemory are in bytes; MaxMemory is 0 where there is no bound.
	UsedMemory int64 `json:"used_memory"`
	MaxMemory  int64 `json:"max_memory"`
	// Eviction is what happens when it is full.
	Eviction string `json:"eviction,omitempty"`
	// AppendOnly says that it keeps a log of its writes, and LastSave is when it
	// last wrote a snapshot; zero when it has written none since its start, or that is
	// not known. Failing is why it does not persist what it should.
	AppendOnly bool      `json:"append_only"`
	LastSave   time.Time `json:"last_save,omitzero"`
	Failing    string    `json:"failing,omitempty"`
	// AheadBy is how far its clock is ahead of this machine's, within half a round
	// trip.
	AheadBy time.Duration `json:"ahead_by_ns"`

	// The rest is of a master of a Cluster. Replicas is how many follow it, and have all of
	// its keys; nil where it is no such master, or that is not known.
	Replicas *int `json:"replicas,omitempty"`
	// Shards are those that lie there, by their numbers; nil where it is no such master.
	Shards []int `json:"shards,omitzero"`
	// Waiting is how many notifications wait in them; nil where it is no such master, or
	// that is not known. WaitingAt is when it was counted of those that do not answer; zero
	// where all do.
	Waiting   *int64    `json:"waiting,omitempty"`
	WaitingAt time.Time `json:"waiting_at,omitzero"`
}

// Look answers how each node that holds keys is, by address, without its shards. Its error
// is about the Cluster as a whole: a node that hangs leaves the caller the time to say how
// the others are.
func Look(ctx context.Context, c redis.UniversalClient) ([]Node, error) {
	var (
		mu      sync.Mutex
		servers []*redis.Client
	)
	known, cancel := within(ctx, .25) // who is asked for the Cluster's map may hang: then it is the last one
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
		all.Go(func() { nodes[i] = look(ctx, node) })
	}
	all.Wait()
	slices.SortFunc(nodes, func(a, b Node) int { return cmp.Compare(a.Address, b.Address) })
	return nodes, err
}

func look(ctx context.Context, c *redis.Client) Node {
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
		return n // what it is is unknown where the user may not ask
	}
	n.tell(fields(text), clock)
	return n
}

// tell takes up the fields of INFO, as they are now by the server's clock.
func (n *Node) tell(info map[string]string, now time.Time) {
	n.Version, n.Eviction = info["redis_version"], info["maxmemory_policy"]
	n.UsedMemory, _ = strconv.ParseInt(info["used_memory"], 10, 64)
	n.MaxMemory, _ = strconv.ParseInt(info["maxmemory"], 10, 64)
	n.AppendOnly = info["aof_enabled"] == "1"
	saved, err := strconv.ParseInt(info["rdb_last_save_time"], 10, 64)
	uptime, _ := strconv.ParseInt(info["uptime_in_seconds"], 10, 64)
	if started := now.Unix() - uptime; err == nil && saved > started+1 { // without a snapshot it is the start, to the second
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
