package redisconn

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
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
}

// Look answers how each node that holds keys is, by address. Its error is about
// the Cluster as a whole.
func Look(ctx context.Context, c redis.UniversalClient) ([]Node, error) {
	var (
		mu    sync.Mutex
		nodes []Node
	)
	err := eachNode(ctx, c, func(ctx context.Context, node *redis.Client) error {
		n := look(ctx, node)
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, n)
		return nil
	})
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
		if !refused(err) {
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
	switch {
	case n.AppendOnly && info["aof_last_write_status"] == "err":
		n.Failing = "its log cannot be written"
	case info["rdb_last_bgsave_status"] == "err":
		n.Failing = "its last snapshot failed"
	}
}
