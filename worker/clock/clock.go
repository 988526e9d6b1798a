// Package clock has the timing of the worker's goroutines. Sleep and Every return when their context
// ends. A Trouble logs when an error state begins and ends. Watch warns if this machine's clock differs
// from Redis's: NotBefore and expiry follow this machine's clock.
package clock

import (
	"context"
	"log/slog"
	"time"
)

// Sleep waits for d. If ctx ends first, it returns ctx's error.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// LastTimeout bounds each step of a shutdown after shutdown_timeout: a supervisor kills the worker soon
// (deploy/ gives it 10 s more). Other workers take over the unfinished steps once the worker is dead.
const LastTimeout = 3 * time.Second

// ScanPause is the pause between two steps of a scan of many jobs or users. During the pause Redis serves
// other clients. The pauses lengthen a scan of 100,000 users by less than a minute.
const ScanPause = 500 * time.Microsecond

// Every calls f at once, and then at each interval until ctx ends.
func Every(ctx context.Context, interval time.Duration, f func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		f()
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// MaxOffset is the difference between this machine's clock and Redis's above which Watch warns. NTP keeps
// clocks within some ms, but a slow answer of Redis adds its delay to the measurement.
const MaxOffset = 500 * time.Millisecond

// SlowInterval is the interval of checks for slow changes: within it, a clock drifts by far less than
// MaxOffset.
const SlowInterval = 20 * time.Second

// Watch warns once the clocks differ by more than MaxOffset, and logs when they no longer do, until ctx
// ends. offset returns how far Redis's clock is ahead.
func Watch(ctx context.Context, log *slog.Logger, offset func() time.Duration) {
	trouble := Trouble{Log: log, Begins: "this machine's clock differs from Redis's, and not_before and expiry apply early or late: synchronize this machine's clock by NTP", Ends: "this machine's clock agrees with Redis's again"}
	Every(ctx, SlowInterval, func() {
		offset := offset()
		trouble.Note(ctx, offset.Abs() > MaxOffset, slog.Duration("redis_ahead_by", offset))
	})
}

// A Trouble logs when an error state begins, and when it ends unless Ends is empty. It is not safe
// for concurrent use.
type Trouble struct {
	Log          *slog.Logger
	Begins, Ends string
	on           bool
}

// Note sets whether the error state holds now, and logs a change with the attributes. It does nothing
// once ctx has ended.
func (t *Trouble) Note(ctx context.Context, on bool, attrs ...slog.Attr) {
	if ctx.Err() != nil || on == t.on {
		return
	}
	if t.on = on; on {
		t.Log.LogAttrs(ctx, slog.LevelWarn, t.Begins, attrs...)
	} else if t.Ends != "" {
		t.Log.LogAttrs(ctx, slog.LevelInfo, t.Ends, attrs...)
	}
}

// Failing is Note with the result of an operation: an error state if err is not nil.
func (t *Trouble) Failing(ctx context.Context, err error, attrs ...slog.Attr) {
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	t.Note(ctx, err != nil, attrs...)
}
