package shard

// Queue returns pushpace's queue of that priority.
func Queue(priority string) string { return "pushpace-" + priority }

// Queues are pushpace's queues, the most urgent first.
var Queues = []string{Queue("critical"), Queue("default"), Queue("bulk")}

// QueueKey returns asynq's key of that name for a queue, as asynq's internal/base makes it.
func QueueKey(queue, name string) string { return "asynq:{" + queue + "}:" + name }

const (
	// QueuesKey is asynq's set of the existing queues' names.
	QueuesKey = "asynq:queues"
	// AsynqKeys is the pattern of asynq's keys, and of the channels of idle workers.
	AsynqKeys = "asynq:*"
)

// IdleKey returns the key that marks a queue that a worker has found empty. Its value is the
// channel on which idle workers wait for messages. worker/queue has the protocol.
func IdleKey(queue string) string { return QueueKey(queue, "idle") }
