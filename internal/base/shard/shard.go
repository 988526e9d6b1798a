// Package shard maps notifications to keys in Redis. A shard is a block of a Cluster's hash slots.
// A notification's app and user determine its shard, which also contains the user's timelines.
// Start with Layout.
//
// A hash tag in braces puts a shard's queues and records into one hash slot of the block: on a
// Cluster all keys of a script must be in one hash slot.
package shard

import (
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
)

// MaxShards is the largest number of shards.
const MaxShards = 256

// A Shard has the keys of some users' notifications.
type Shard struct {
	// Number is the shard's index, from 0.
	Number int

	base     string            // prefix of the shard's keys
	queues   map[string]string // asynq's name by pushpace's queue
	cluster  bool
	database int
}

// Shards are all shards, indexed by Number.
type Shards []Shard

// Of returns the number of the shard of an app's user, if there are that many shards.
func Of(shards int, app, user string) int {
	if shards == 1 {
		return 0
	}
	return slotOf(UserTag(app, user)) * shards / slots
}

// NewShards returns n shards, a power of two, with keys that begin with the prefix. The names are the
// same on one server as on a Cluster.
func NewShards(client redis.UniversalClient, prefix string, n int) Shards {
	_, cluster := pipeline.OfCluster(client)
	database := 0
	if server, ok := client.(interface{ Options() *redis.Options }); ok {
		database = server.Options().DB
	}
	all := make(Shards, n)
	for i, names := range namesOf(n) {
		all[i] = Shard{Number: i, base: prefix + ":{" + names.tag + "}:", queues: names.queues, cluster: cluster, database: database}
	}
	return all
}

// names are a shard's names in one hash slot, the middle of its block.
type names struct {
	tag    string
	queues map[string]string
}

var found sync.Map // results of namesOf by n

func namesOf(n int) []names {
	if known, ok := found.Load(n); ok {
		return known.([]names)
	}
	all := make([]names, n)
	for i := range all {
		slot, of := (2*i+1)*slots/(2*n), ""
		if n > 1 {
			of = fmt.Sprintf("-%02d", i)
		}
		all[i] = names{tag: nameInSlot("shard"+of, slot), queues: map[string]string{}}
		for _, queue := range Queues {
			all[i].queues[queue] = nameInSlot(queue+of, slot)
		}
	}
	found.Store(n, all)
	return all
}

// Key returns the shard's key of that name.
func (s Shard) Key(name string) string { return s.base + name }

// Queue returns asynq's name of a queue.
func (s Shard) Queue(queue string) string {
	if name, ok := s.queues[queue]; ok {
		return name
	}
	return queue
}

// Queues returns asynq's names of Queues.
func (s Shard) Queues() []string {
	all := make([]string, len(Queues))
	for i, queue := range Queues {
		all[i] = s.Queue(queue)
	}
	return all
}

// QueueKey returns asynq's key of that name for a queue.
func (s Shard) QueueKey(queue, name string) string { return QueueKey(s.Queue(queue), name) }

// IdleKey returns the IdleKey of a queue.
func (s Shard) IdleKey(queue string) string { return IdleKey(s.Queue(queue)) }

// Channel returns the pub/sub channel of the shard's queues. On a Cluster it is a sharded channel in
// the shard's hash slot. On a single server it includes the database's number, since all databases
// share channels.
func (s Shard) Channel() string {
	if s.cluster {
		return s.IdleKey(Queue("default"))
	}
	return fmt.Sprintf("asynq:%d:%s:idle", s.database, s.Queue(Queue("default")))
}

// Sharded reports whether the shard's channel is a Cluster's sharded channel.
func (s Shard) Sharded() bool { return s.cluster }

// QueueOf returns pushpace's queue from one of asynq's keys: asynq:{NAME}:….
func (s Shard) QueueOf(key string) string {
	_, name, _ := strings.Cut(key, "{")
	name, _, _ = strings.Cut(name, "}")
	return s.Plain(name)
}

// Plain returns pushpace's queue from asynq's name.
func (s Shard) Plain(name string) string {
	for queue, its := range s.queues {
		if its == name {
			return queue
		}
	}
	return name
}
