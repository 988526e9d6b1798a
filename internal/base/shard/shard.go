// Package shard says where in Redis notifications lie. A shard is a block of a Cluster's
// hash slots, which follows from a notification's app and user: that of their timelines.
// Its queues, and all that is kept of the notifications on them, lie in one slot of the
// block, so that one script can change them together: a script's keys have to be of one slot
// on a Cluster, of which Redis takes what stands in braces.
package shard

import (
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
)

// Most bounds how many shards there are.
const Most = 256

// A Shard is where the notifications of some users lie.
type Shard struct {
	// Number is its place among the shards, from 0.
	Number int

	base     string            // of its keys
	queues   map[string]string // asynq's name of each of our queues
	cluster  bool
	database int
}

// Shards are all that there are, by their numbers.
type Shards []Shard

// Of is the number of the shard, of so many, of what is sent to an app's user.
func Of(shards int, app, user string) int {
	if shards == 1 {
		return 0
	}
	return slotOf(UserTag(app, user)) * shards / slots
}

// Named returns so many shards, a power of two, whose keys begin with the prefix. The names are
// the same on one server as on a Cluster.
func Named(client redis.UniversalClient, prefix string, n int) Shards {
	_, cluster := pipeline.OfCluster(client)
	database := 0
	if server, ok := client.(interface{ Options() *redis.Options }); ok {
		database = server.Options().DB
	}
	all := make(Shards, n)
	for i, names := range landings(n) {
		all[i] = Shard{Number: i, base: prefix + ":{" + names.tag + "}:", queues: names.queues, cluster: cluster, database: database}
	}
	return all
}

// names are those of a shard that fall into one slot, the middle of its block.
type names struct {
	tag    string
	queues map[string]string
}

var found sync.Map // of landings, by how many

func landings(n int) []names {
	if known, ok := found.Load(n); ok {
		return known.([]names)
	}
	all := make([]names, n)
	for i := range all {
		slot, of := (2*i+1)*slots/(2*n), ""
		if n > 1 {
			of = fmt.Sprintf("-%02d", i)
		}
		all[i] = names{tag: landing("shard"+of, slot), queues: map[string]string{}}
		for _, queue := range Queues {
			all[i].queues[queue] = landing(queue+of, slot)
		}
	}
	found.Store(n, all)
	return all
}

// Key is the shard's key of that name.
func (s Shard) Key(name string) string { return s.base + name }

// Queue is asynq's name of one of our queues.
func (s Shard) Queue(queue string) string {
	if name, ok := s.queues[queue]; ok {
		return name
	}
	return queue
}

// Queues are Queues by asynq's names.
func (s Shard) Queues() []string {
	all := make([]string, len(Queues))
	for i, queue := range Queues {
		all[i] = s.Queue(queue)
	}
	return all
}

// QueueKey is one of asynq's keys of one of our queues.
func (s Shard) QueueKey(queue, name string) string { return QueueKey(s.Queue(queue), name) }

// IdleKey is IdleKey of one of our queues.
func (s Shard) IdleKey(queue string) string { return IdleKey(s.Queue(queue)) }

// Channel is that for words about the shard's queues. On a Cluster it is of the shard's slot,
// and one that is published there alone. On one server it has the number of the database, since
// all databases share channels.
func (s Shard) Channel() string {
	if s.cluster {
		return s.IdleKey(Queue("default"))
	}
	return fmt.Sprintf("asynq:%d:%s:idle", s.database, s.Queue(Queue("default")))
}

// Sharded reports whether the shard's channel is a Cluster's.
func (s Shard) Sharded() bool { return s.cluster }

// QueueOf is our queue, of which that is one of asynq's keys: asynq:{NAME}:….
func (s Shard) QueueOf(key string) string {
	_, name, _ := strings.Cut(key, "{")
	name, _, _ = strings.Cut(name, "}")
	return s.Plain(name)
}

// Plain is our queue of asynq's name.
func (s Shard) Plain(name string) string {
	for queue, its := range s.queues {
		if its == name {
			return queue
		}
	}
	return name
}
