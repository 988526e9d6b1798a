package worker

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/push"
)

// sweepEvery is how often the active jobs are looked over. A crashed worker's
// jobs are recovered when their lease has been over for half a minute.
const sweepEvery = 20 * time.Second

// sweep sets aside what asynq itself cannot read. asynq leaves such a message
// among the active ones, and from then on recovers no crashed worker's job of
// any queue, because it reads all of them at once.
func (h *handler) sweep(ctx context.Context) {
	inspector := asynq.NewInspectorFromRedisClient(h.Queue)
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		for queue := range push.Queues() {
			if err := h.sweepQueue(ctx, inspector, queue); err != nil && ctx.Err() == nil {
				h.Log.LogAttrs(ctx, slog.LevelWarn, "active jobs not looked over", slog.String("queue", queue), slog.Any("error", err))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// sweepPage is how many leases are looked at at once.
const sweepPage = 1000

// sweepQueue looks at the queue's leases that are over: those of the readable
// jobs are asynq's to recover.
func (h *handler) sweepQueue(ctx context.Context, inspector *asynq.Inspector, queue string) error {
	now := strconv.FormatInt(time.Now().Unix(), 10)
	for offset := int64(0); ; {
		ids, err := h.Queue.ZRangeArgs(ctx, redis.ZRangeArgs{
			Key: queueKey(queue, "lease"), ByScore: true, Start: "-inf", Stop: now, Offset: offset, Count: sweepPage,
		}).Result()
		if err != nil || len(ids) == 0 {
			return err
		}
		for _, id := range ids {
			info, err := inspector.GetTaskInfo(queue, id)
			if err == nil && info.ID != "" || err != nil && !unreadable(err) {
				offset++ // it stays
				continue
			}
			if err := h.removeUnreadable(ctx, queue, id); err != nil {
				return err
			}
		}
	}
}

// unreadable tells a message that does not decode, or is not there, from a
// Redis that does not answer.
func unreadable(err error) bool {
	return err != nil && (errors.Is(err, asynq.ErrTaskNotFound) || strings.Contains(err.Error(), "could not decode task message"))
}

// removeUnreadable takes the message out of asynq's sets, once it is kept. Of one
// that has ended meanwhile there is nothing to keep.
func (h *handler) removeUnreadable(ctx context.Context, queue, id string) error {
	task := queueKey(queue, "t:"+id)
	fields, err := h.Queue.HGetAll(ctx, task).Result()
	if err != nil {
		return err
	}
	if len(fields) == 0 {
		pipe := h.Queue.Pipeline()
		pipe.LRem(ctx, queueKey(queue, "active"), 0, id)
		pipe.ZRem(ctx, queueKey(queue, "lease"), id)
		_, err := pipe.Exec(ctx)
		return err
	}
	err = h.Records.SetAside(ctx, &push.Letter{
		ID: id, State: push.Malformed, Reason: string(push.MalformedEnvelope), Error: "asynq cannot read the message",
		At: time.Now().UTC(), Queue: queue, Job: []byte(fields["msg"]),
	})
	if err != nil {
		return err
	}
	pipe := h.Queue.TxPipeline()
	pipe.LRem(ctx, queueKey(queue, "active"), 0, id)
	pipe.ZRem(ctx, queueKey(queue, "lease"), id)
	pipe.Del(ctx, task)
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	h.Log.LogAttrs(ctx, slog.LevelWarn, "job set aside", slog.String("task", id), slog.String("queue", queue), slog.String("reason", string(push.MalformedEnvelope)))
	h.Observer.Ended(push.Malformed)
	return nil
}

// queueKey is one of asynq's keys, as its internal/base makes them.
func queueKey(queue, name string) string { return "asynq:{" + queue + "}:" + name }
