// Package shard names what lies together in Redis: the queues, and all that is kept of the
// notifications on them, so that one script can change both. A script's keys have to be of
// one hash slot on a Cluster, of which Redis takes what stands in braces.
package shard

import (
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/asynqwire"
)

// A Shard is where notifications lie.
type Shard struct {
	base   string            // of its keys
	queues map[string]string // asynq's name of each of our queues; nil where it is the same
}

// Of returns the shard on the client's Redis, whose keys begin with the prefix. Where there
// is one server the names are plain.
func Of(client redis.UniversalClient, prefix string) Shard {
	if _, cluster := client.(*redis.ClusterClient); !cluster {
		return Shard{base: prefix + ":"}
	}
	names := onCluster()
	return Shard{base: prefix + ":{" + names.tag + "}:", queues: names.queues}
}

// names are those that fall into one slot.
type names struct {
	tag    string
	queues map[string]string
}

// home is the slot in which all of a Cluster's only shard lies.
const home = slots / 2

var onCluster = sync.OnceValue(func() names {
	n := names{tag: landing("shard", home), queues: map[string]string{}}
	for queue := range asynqwire.Queues() {
		n.queues[queue] = landing(queue, home)
	}
	return n
})

// Key is the shard's key of that name.
func (s Shard) Key(name string) string { return s.base + name }

// Queue is asynq's name of one of our queues.
func (s Shard) Queue(queue string) string {
	if name, ok := s.queues[queue]; ok {
		return name
	}
	return queue
}

// Queues are asynqwire.Queues by asynq's names.
func (s Shard) Queues() map[string]int {
	shares := make(map[string]int)
	for queue, share := range asynqwire.Queues() {
		shares[s.Queue(queue)] = share
	}
	return shares
}

// QueueKey is one of asynq's keys of one of our queues.
func (s Shard) QueueKey(queue, name string) string { return asynqwire.QueueKey(s.Queue(queue), name) }

// IdleKey is asynqwire.IdleKey of one of our queues.
func (s Shard) IdleKey(queue string) string { return asynqwire.IdleKey(s.Queue(queue)) }

// QueueOf is our queue, of which that is one of asynq's keys: asynq:{NAME}:….
func (s Shard) QueueOf(key string) string {
	_, name, _ := strings.Cut(key, "{")
	name, _, _ = strings.Cut(name, "}")
	for queue, its := range s.queues {
		if its == name {
			return queue
		}
	}
	return name
}
