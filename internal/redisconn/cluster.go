package redisconn

import (
	"context"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
)

const (
	// reloadEvery is the maximum age of a Cluster's map of hash slots: a lost master cannot
	// redirect commands to its successor.
	reloadEvery = time.Second
	// redirects is how often a command on a Cluster is redirected: to the hash slot's node, and to
	// the node that the hash slot moves to.
	redirects = 2
)

// newCluster returns a client of a Cluster; the watch sees each node's errors.
func newCluster(opts *redis.UniversalOptions, h *errorHook) *redis.ClusterClient {
	o := opts.Cluster()
	o.ClusterStateReloadInterval, o.MaxRedirects = reloadEvery, redirects
	o.MaxRetries = -1 // redirects repeat a command
	cluster := redis.NewClusterClient(o)
	cluster.OnNewNode(func(node *redis.Client) {
		node.AddHook(reloadHook{cluster})
		node.AddHook(progressHook{})
		node.AddHook(h)
		node.AddHook(pipeline.Refusals{})
	})
	return cluster
}

// reloadHook is a hook that reloads a Cluster's map of hash slots after a failed dial.
type reloadHook struct{ cluster *redis.ClusterClient }

func (r reloadHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil {
			r.cluster.ReloadState(ctx)
		}
		return conn, err
	}
}

func (reloadHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (reloadHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
