package queue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/base/repeats"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/store"
)

// A client is the Redis client of asynq's server. It takes the place of some of
// asynq's scripts, see scripts, and saves two kinds of round trips.
//
// asynq asks for each job by itself, queue by queue, the most urgent ones mostly
// first, so that while one queue is busy the empty ones cost as much as it does.
// Several jobs are pulled at once, and what was found empty is not asked again
// before a word comes: see idle.go.
//
// A notification that is delivered at its first attempt, as most are, is settled
// in the step in which asynq is done with its job.
//
// What asynq could not read, or would lose, it never sees: see deadletter.go.
type client struct {
	redis.UniversalClient
	// alone is for what must not take longer than it may: its commands end with their
	// context, and share nothing.
	alone    redis.UniversalClient
	config   Config
	server   *Server
	shard    shard.Shard
	batches  *pipeline.Batches[batch]
	failed   atomic.Bool  // the last pull
	forwards atomic.Int64 // turns at it
	left     atomic.Bool  // a job that was cut off is not put back
	refusals refusals
	handler  Handler
	works    recent[handed] // what the jobs on their way through asynq come to
	repeats  repeats.Log    // what jobs and asynq can have it say again and again
	// delivered are handled, and settled when asynq is done with them.
	delivered recent[[]store.TargetOutcome]
	ending    context.Context // ends with the server
	end       context.CancelFunc

	idle   *idle
	life   *life
	strays strays

	mu     sync.Mutex
	ready  map[string][]pulled // by queue: jobs that were pulled ahead
	stuck  map[string]int      // by queue: how many were in hand and stuck at the last pull
	parked map[string][]string // by queue: the routes of which jobs were parked then
}

func newClient(c Config) *client {
	ending, end := context.WithCancel(context.Background())
	return &client{
		ending: ending, end: end,
		UniversalClient: c.Client, alone: pipeline.Alone(c.Client), config: c, shard: c.Records.Shard, refusals: refusals{log: c.RedisLog}, works: recent[handed]{drop: func(h handed) { h.begin() }}, batches: pipeline.NewBatches[batch](c.Client, batchMost),
		idle: newIdle(c.Records.Shard, c.Hands, c.Role), life: newLife(), strays: strays{inHand: make(map[string]inHand)}, ready: make(map[string][]pulled), stuck: make(map[string]int), parked: make(map[string][]string),
	}
}

// EvalSha takes the place of asynq's scripts as the list of scripts says, and
// refuses what is not in it.
func (c *client) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	switch sha {
	case dequeueHash:
		return c.dequeue(ctx, keys, args)
	case doneHash, retryHash, requeueHash:
		return c.release(ctx, sha, keys, args)
	case forwardHash:
		return c.forward(ctx, keys)
	case leasesHash:
		return c.crashed(keys[0], args)
	}
	switch name := scripts[sha]; {
	case name == "":
		return redis.NewCmdResult(nil, store.UnknownScript(sha))
	case toldServers[name]:
		return redis.NewCmdResult("OK", nil)
	}
	return c.UniversalClient.EvalSha(ctx, sha, keys, args...)
}

// release takes a job out of hand.
func (c *client) release(ctx context.Context, sha string, keys []string, args []any) (cmd *redis.Cmd) {
	id, _ := args[0].(string)
	switch sha {
	case doneHash:
		cmd = c.done(ctx, keys, args)
	case retryHash:
		cmd = c.returnJob(ctx, keys, args)
	default:
		cmd = c.cutOff(ctx, keys, args)
	}
	if outOfHand(cmd) {
		c.strays.drop(id)
	} else { // asynq may ask again
		c.strays.suspect(cmd.Err())
	}
	return cmd
}

// toldServers are the scripts by which asynq's server tells of itself, every few seconds, and
// of all jobs in its hands. Their keys are no shard's, and the server waits for the answer
// before it hands out another job, so that a master that hangs would stall all shards. They
// are not run: the workers' snapshots tell more.
var toldServers = map[string]bool{"writeServerStateCmd": true, "clearServerStateCmd": true}

// toldIn reports whether that is a key of the same.
func toldIn(key string) bool { return key == "asynq:servers" || key == "asynq:workers" }

// ZAdd implements redis.Cmdable.
func (c *client) ZAdd(ctx context.Context, key string, members ...redis.Z) *redis.IntCmd {
	if toldIn(key) {
		return redis.NewIntResult(0, nil)
	}
	return c.UniversalClient.ZAdd(ctx, key, members...)
}

// ZRem implements redis.Cmdable.
func (c *client) ZRem(ctx context.Context, key string, members ...any) *redis.IntCmd {
	if toldIn(key) {
		return redis.NewIntResult(0, nil)
	}
	return c.UniversalClient.ZRem(ctx, key, members...)
}

// Subscribe implements redis.UniversalClient. asynq's server listens by it for jobs that
// asynq's own tools cancel, by a connection of its own for each shard, all to the one node of
// a Cluster that has the channel. It is refused, and asks again every 5 s without any
// command: what is cancelled is taken from the queue, and not from a worker's hands.
func (c *client) Subscribe(ctx context.Context, channels ...string) *redis.PubSub {
	return closed().Subscribe(ctx, channels...)
}

// closed is a client that has no connection, and makes none.
var closed = sync.OnceValue(func() *redis.Client {
	client := redis.NewClient(&redis.Options{})
	_ = client.Close()
	return client
})

// A batch is jobs that are done at about the same time, and share a command.
type batch struct {
	*store.Dones
	young bool // see store.Dones.Command
}

// batchMost bounds how many share a command: it holds Redis up for less than a
// millisecond.
const batchMost = 64

// Command implements pipeline.Batch.
func (b batch) Command(ctx context.Context) *redis.Cmd { return b.Dones.Command(ctx, b.young) }

// done settles in the same step what waits for it.
func (c *client) done(ctx context.Context, keys []string, args []any) *redis.Cmd {
	id, _ := args[0].(string)
	outcomes, ours := c.delivered.of(id)
	if !ours {
		owned := append(slices.Clip(args), c.life.term.Load().id, c.shard.QueueOf(keys[0]))
		keys = append(slices.Clip(keys), c.config.Records.Key("id:"+id))
		cmd := c.insist(ctx, func(ctx context.Context) *redis.Cmd { return endScript.Run(ctx, c.UniversalClient, keys, owned...) })
		if cmd.Val() == int64(0) {
			c.strays.suspect(errUndone)
			cmd.SetVal("OK") // asynq knows no job that stays
		}
		return cmd
	}
	cmd := c.insist(ctx, func(ctx context.Context) *redis.Cmd {
		cmd := redis.NewCmd(ctx)
		err := c.batches.Do(ctx, keys[0], keys[3], // asynq's count of the queue's day
			func() batch {
				return batch{c.config.Records.NewDones(keys, args), c.mostStuck(c.shard.QueueOf(keys[0]))}
			},
			func(open batch) { open.Add(id, keys[2], outcomes) })
		if err != nil {
			cmd.SetErr(err)
		}
		return cmd
	})
	if err := cmd.Err(); err == nil || redisreply.NotFound(err) {
		c.delivered.take(id)
	}
	return cmd
}

// errUndone is why a job is not ended that is done.
var errUndone = errors.New("its notification's end is not recorded")

// mostStuck reports whether most of what is in hand is stuck, and was pulled earlier than
// what is done.
func (c *client) mostStuck(queue string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return 2*c.stuck[queue] > c.config.Hands.count()
}

// insist repeats what takes a job out of hand. asynq's own repetitions come with a
// context that has ended, and never reach Redis.
func (c *client) insist(ctx context.Context, f func(context.Context) *redis.Cmd) *redis.Cmd {
	cmd := f(ctx)
	if outOfHand(cmd) {
		return cmd
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), insistFor)
	defer cancel()
	_ = c.refusals.persist(ctx, insistFor, func() error { // the error is the command's
		if cmd = f(ctx); outOfHand(cmd) {
			return nil
		}
		return cmd.Err()
	})
	return cmd
}

// outOfHand reports whether the job is, or another script is asked for.
func outOfHand(cmd *redis.Cmd) bool {
	err := cmd.Err()
	return err == nil || redisreply.NotFound(err) || redis.HasErrorPrefix(err, "NOSCRIPT")
}

// insistFor is how long. The scripts do nothing to a job that another worker has by then.
const insistFor = time.Minute
