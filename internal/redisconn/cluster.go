package redisconn

import (
	"context"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
)

const (
	// reloadEvery is how old the map of a Cluster's slots may be. A master that is
	// gone tells nobody who has taken its place.
	reloadEvery = time.Second
	// redirects is how often a command on a Cluster is sent on: to the node that
	// has the slot, and on to the one that it moves to.
	redirects = 2
)

// newCluster returns a client of a Cluster, of whose nodes each has its errors heard.
func newCluster(opts *redis.UniversalOptions, h *heard) *redis.ClusterClient {
	o := opts.Cluster()
	o.ClusterStateReloadInterval, o.MaxRedirects = reloadEvery, redirects
	o.MaxRetries = -1 // what is sent on is tried again
	cluster := redis.NewClusterClient(o)
	cluster.OnNewNode(func(node *redis.Client) {
		node.AddHook(reloads{cluster})
		node.AddHook(progresses{})
		node.AddHook(h)
		node.AddHook(pipeline.Refusals{})
	})
	return cluster
}

// reloads has a Cluster's map be read again when a node cannot be reached.
type reloads struct{ cluster *redis.ClusterClient }

func (r reloads) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil {
			r.cluster.ReloadState(ctx)
		}
		return conn, err
	}
}

func (reloads) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (reloads) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
