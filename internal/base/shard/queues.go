package shard

// Queue is the name of our queue of that priority.
func Queue(priority string) string { return "pushpace-" + priority }

// Queues are our queues, the most urgent first.
var Queues = []string{Queue("critical"), Queue("default"), Queue("bulk")}

// QueueKey is one of asynq's keys of a queue, as its internal/base makes them.
func QueueKey(queue, name string) string { return "asynq:{" + queue + "}:" + name }

const (
	// QueuesKey is asynq's set of the names of the queues that there are.
	QueuesKey = "asynq:queues"
	// AsynqKeys is the pattern of asynq's keys, and of the channels of idle workers.
	AsynqKeys = "asynq:*"
)

// IdleKey is the flag of a queue that a worker has found empty. It holds the channel on which
// workers hear that a job is due. worker/queue has the protocol.
func IdleKey(queue string) string { return QueueKey(queue, "idle") }
