package worker

import (
	"context"
	"log/slog"
	"time"
)

const (
	// clockLimit is how far this machine's clock may be from Redis's before the
	// operator is warned: the queue's delayed jobs go by the workers' clocks.
	clockLimit = 500 * time.Millisecond
	clockEvery = 10 * time.Second
)

// watchClock warns when the clocks are out of step, and tells when they are
// back.
func (h *handler) watchClock(ctx context.Context) {
	if h.ClockOffset == nil {
		return
	}
	ticker := time.NewTicker(clockEvery)
	defer ticker.Stop()
	for off := false; ; {
		offset := h.ClockOffset()
		if now := offset.Abs() > clockLimit; now != off {
			off = now
			level, words := slog.LevelInfo, "the clock is in step with Redis's again"
			if off {
				level, words = slog.LevelWarn, "the clock is out of step with Redis's: deferred notifications are early or late; keep it by NTP"
			}
			h.Log.LogAttrs(ctx, level, words, slog.Duration("redis_ahead_by", offset))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
