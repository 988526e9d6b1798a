package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/asynqwire"
)

// An Inspector looks at the jobs on the queues. It is safe for concurrent use.
type Inspector struct {
	client redis.UniversalClient
	asynq  *asynq.Inspector
}

// NewInspector returns an inspector on the client.
func NewInspector(client redis.UniversalClient) *Inspector {
	return &Inspector{client, asynq.NewInspectorFromRedisClient(client)}
}

// A Place is where asynq has a job.
type Place struct {
	// State is one of ours, or a word of asynq's.
	State   JobState
	Payload []byte
	// Orphaned says that the worker is gone that had the job in hand.
	Orphaned bool
	// Last is the job's last Return, and Back when that was; zero when it has not returned.
	Last Return
	Back time.Time
	// Due is when it comes back; zero for one that is due.
	Due time.Time
}

// Find returns where a job is; nil when it is on no queue.
func (i *Inspector) Find(ctx context.Context, queue, id string) (*Place, error) {
	info, err := i.asynq.GetTaskInfo(queue, id)
	if errors.Is(err, asynq.ErrQueueNotFound) { // a failover may have lost its name alone
		if err := i.client.SAdd(ctx, asynqwire.QueuesKey, queue).Err(); err != nil {
			return nil, fmt.Errorf("look for the job: %w", err)
		}
		info, err = i.asynq.GetTaskInfo(queue, id)
	}
	if errors.Is(err, asynq.ErrTaskNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for the job: %w", err)
	}
	return &Place{
		State: jobState(info.State.String()), Payload: info.Payload, Orphaned: info.IsOrphaned, Last: readReturn(info.LastErr), Back: info.LastFailedAt, Due: info.NextProcessAt,
	}, nil
}

// States returns where the jobs are, by ID, which queues names the queue of each by;
// those that are on none are left out. It makes one round trip, one to each node of a
// Cluster.
func (i *Inspector) States(ctx context.Context, queues map[string]string) (map[string]JobState, error) {
	if len(queues) == 0 {
		return nil, nil
	}
	pipe := i.client.Pipeline()
	found := make(map[string]*redis.SliceCmd, len(queues))
	for id, queue := range queues {
		found[id] = pipe.HMGet(ctx, asynqwire.QueueKey(queue, "t:"+id), "state")
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("look for the jobs: %w", err)
	}
	states := make(map[string]JobState, len(found))
	for id, job := range found {
		if word, there := job.Val()[0].(string); there {
			states[id] = jobState(word)
		}
	}
	return states, nil
}

// wakeScript moves jobs that wait for another visit to the end of the queue. It
// returns those that a worker has in hand.
//
// KEYS  retry, pending, the idle
// ARGV  prefix of the tasks' keys, IDs
var wakeScript = redis.NewScript(asynqwire.WakeIdle + `
local awake = {}
for i = 2, #ARGV do
  local key = ARGV[1] .. ARGV[i]
  if redis.call('ZREM', KEYS[1], ARGV[i]) == 1 then
    redis.call('LPUSH', KEYS[2], ARGV[i])
    redis.pcall('HSET', key, 'state', 'pending')
    wake(KEYS[3])
  elseif redis.pcall('HGET', key, 'state') == 'active' then
    awake[#awake + 1] = ARGV[i]
  end
end
return awake
`)

// WakeAll makes the jobs due that have returned to the queue, and returns the IDs of those
// that a worker still has in hand.
func (i *Inspector) WakeAll(ctx context.Context, queue string, ids []string) (inHand []string, err error) {
	args := []any{asynqwire.QueueKey(queue, "t:")}
	for _, id := range ids {
		args = append(args, id)
	}
	keys := []string{asynqwire.QueueKey(queue, "retry"), asynqwire.QueueKey(queue, "pending"), asynqwire.IdleKey(queue)}
	return wakeScript.Run(ctx, i.client, keys, args...).StringSlice()
}

// Due is how many jobs of the queue are.
func (i *Inspector) Due(ctx context.Context, queue string) (int64, error) {
	return i.client.LLen(ctx, asynqwire.QueueKey(queue, "pending")).Result()
}
