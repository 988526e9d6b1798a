package push

import "math"

// TaskType is the type of our jobs on asynq's queues.
const TaskType = "pushpace:notification"

// MaxRetry is asynq's budget for our jobs. asynq archives a job that comes back
// on its last attempt before it asks whether that was a failure, so a deferral
// could lose it: the budget of attempts is ours, and asynq's is never used up.
const MaxRetry = math.MaxInt32 / 2

// Queue answers the asynq queue of notifications with this priority.
func (p Priority) Queue() string {
	switch p {
	case Critical, Bulk:
		return "pushpace-" + string(p)
	}
	return "pushpace-" + string(Default)
}

// Queues are asynq's queues with the share of attention each gets while all of
// them have jobs.
func Queues() map[string]int {
	return map[string]int{Critical.Queue(): 6, Default.Queue(): 3, Bulk.Queue(): 1}
}

// QueueKey is one of asynq's keys of a queue, as its internal/base makes them.
func QueueKey(queue, name string) string { return "asynq:{" + queue + "}:" + name }
