package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/pushpace/pushpace/push"
)

// sweepEvery is how often the active jobs are looked over. A crashed worker's
// jobs are recovered when their lease has been over for half a minute.
const sweepEvery = 20 * time.Second

// sweep sets aside what a crash has left of jobs that asynq cannot have, and puts
// right what of asynq's own keys would keep others from being seen.
func (h *handler) sweep(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		for queue := range push.Queues() {
			if err := h.sweepQueue(ctx, queue); err != nil && ctx.Err() == nil {
				h.RedisLog.LogAttrs(ctx, slog.LevelWarn, "active jobs not looked over", slog.String("queue", queue), slog.Any("error", err))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (h *handler) sweepQueue(ctx context.Context, queue string) error {
	// asynq notes a queue's name once, and after a failover that lost it never again
	if err := h.Queue.SAdd(ctx, "asynq:queues", queue).Err(); err != nil {
		return err
	}
	keys := []string{push.QueueKey(queue, "groups"), push.QueueKey(queue, "pending")}
	if err := ungroupScript.Run(ctx, h.Queue, keys, push.QueueKey(queue, "g:"), push.QueueKey(queue, "t:"), time.Now().UnixNano()).Err(); err != nil {
		return err
	}
	return h.sweepLeases(ctx, queue)
}

// sweepLeases looks at the queue's leases that are over: those of the readable
// jobs are asynq's to recover.
func (h *handler) sweepLeases(ctx context.Context, queue string) error {
	now := time.Now().Unix()
	for offset := 0; ; {
		jobs, err := overdue(ctx, h.Queue, push.QueueKey(queue, "lease"), now, push.QueueKey(queue, "t:"), offset)
		if err != nil || len(jobs) == 0 {
			return err
		}
		for _, job := range jobs {
			left, err := h.sweepJob(ctx, queue, job)
			if err != nil {
				return err
			}
			if left {
				offset++
			}
		}
	}
}

// sweepJob answers whether the job is left to asynq.
func (h *handler) sweepJob(ctx context.Context, queue string, job over) (left bool, err error) {
	if job.length < 0 || job.length > push.MaxEnvelopeSize {
		return false, h.keepAside(ctx, unreadJob(queue, job.id, job.length))
	}
	if job.length == 0 {
		fields, err := h.Queue.HLen(ctx, push.QueueKey(queue, "t:"+job.id)).Result()
		if err != nil {
			return false, err
		}
		if fields == 0 { // it has ended meanwhile: there is nothing to keep
			pipe := h.Queue.Pipeline()
			pipe.LRem(ctx, push.QueueKey(queue, "active"), 0, job.id)
			pipe.ZRem(ctx, push.QueueKey(queue, "lease"), job.id)
			_, err := pipe.Exec(ctx)
			return false, err
		}
	}
	e, err := push.ReadEnvelope(job.message)
	why := unfitFor(&e)
	if err != nil {
		why = err.Error()
	}
	if why == "" {
		return true, nil
	}
	return false, h.keepAside(ctx, unfit{queue, job.id, push.MalformedEnvelope, why, job.message})
}
