package redisconn

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/base/redisreply"
)

const (
	// probeKeys is the least number of keys that a check writes on a Cluster. maxProbeNames is the
	// number of names that it tries to find a key on each node.
	probeKeys     = 16
	maxProbeNames = 1000
)

// writeProbes writes keys that nothing reads, and returns each node's error, by address. The address
// "" stands for a single server, or for a Cluster whose nodes are unknown.
//
// The key is PREFIX:probe, a text; on a Cluster PREFIX:{probe-0} and so on.
func writeProbes(ctx context.Context, c redis.UniversalClient, prefix string) map[string]error {
	cluster, ok := pipeline.OfCluster(c)
	if !ok {
		return map[string]error{"": c.Set(ctx, prefix+":probe", 1, checkInterval).Err()}
	}
	pipes := map[string]redis.Pipeliner{}
	for i := range maxProbeNames {
		key := prefix + ":{probe-" + strconv.Itoa(i) + "}"
		node, err := cluster.MasterForKey(ctx, key)
		if err != nil {
			return map[string]error{"": err}
		}
		pipe := pipes[node.Options().Addr]
		if pipe == nil {
			pipe = node.Pipeline()
			pipes[node.Options().Addr] = pipe
		} else if i >= probeKeys {
			continue
		}
		pipe.Set(ctx, key, 1, checkInterval)
	}
	return execEach(ctx, pipes)
}

// execEach executes the pipelines concurrently. It stops waiting for a hanging node early enough
// for the caller to report the other nodes.
func execEach(ctx context.Context, pipes map[string]redis.Pipeliner) map[string]error {
	ctx, cancel := within(ctx, .75)
	defer cancel()
	var (
		mu      sync.Mutex
		all     sync.WaitGroup
		answers = map[string]error{}
	)
	for node, pipe := range pipes {
		all.Go(func() {
			cmds, err := pipe.Exec(ctx)
			for _, cmd := range cmds {
				if redisreply.Of(cmd.Err()) != redisreply.None { // an error about a moved hash slot matters less
					err = cmd.Err()
				}
			}
			mu.Lock()
			defer mu.Unlock()
			answers[node] = err
		})
	}
	all.Wait()
	return answers
}

// troubleOf returns the error state that a check's error reports.
func troubleOf(err error) redisreply.Trouble {
	if trouble := redisreply.Of(err); trouble != redisreply.None {
		return trouble
	}
	if err != nil && !redisreply.Answered(err) {
		return redisreply.Away
	}
	return redisreply.None
}

// wholeTrouble returns the error state of the whole Redis, and an error that reports this state;
// None while a node is healthy.
func wholeTrouble(answers map[string]error) (trouble redisreply.Trouble, err error) {
	well := false
	for _, node := range slices.Sorted(maps.Keys(answers)) {
		switch its := troubleOf(answers[node]); {
		case its == redisreply.Broken && redisreply.NotServed(answers[node]):
			return its, answers[node]
		case its == redisreply.None:
			well = true
		case trouble == redisreply.None || its == redisreply.Broken:
			trouble, err = its, answers[node]
		}
	}
	if well {
		return redisreply.None, nil
	}
	return trouble, err
}
