// Package clock is how the worker's goroutines deal with time: they sleep and do
// things every so often until they are stopped, log trouble when it begins and when it
// is over, and watch whether this machine's clock goes with Redis's. What is not to be
// sent before an instant, or expires, goes by this machine's.
package clock

import (
	"context"
	"log/slog"
	"time"
)

// Sleep waits for so long, or returns ctx's error when that ends first.
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

// LastTimeout bounds each step of a worker that stops, once shutdown_timeout is over: a supervisor
// kills it soon (deploy/ gives 10 s more). What is not done then waits until the worker is dead.
const LastTimeout = 3 * time.Second

// Breath is the pause between two steps of a scan of many jobs or users: Redis serves others
// meanwhile, and a scan of 100,000 users is longer by less than a minute.
const Breath = 500 * time.Microsecond

// Every calls f at once, and then once every interval until ctx ends.
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

// Limit is how far this machine's clock may be from Redis's before the operator is warned. NTP keeps
// clocks within some ms, and a slow answer shifts the measure by as much as it takes.
const Limit = 500 * time.Millisecond

// Seldom is the interval at which a worker looks for what goes wrong slowly: a clock drifts by far
// less than Limit in it.
const Seldom = 20 * time.Second

// Watch warns when the clocks are out of step, and logs when they are back, until
// ctx ends. offset returns how far Redis's clock is ahead.
func Watch(ctx context.Context, log *slog.Logger, offset func() time.Duration) {
	trouble := Trouble{Log: log, Begins: "the clock is out of step with Redis's: what has a not_before or expires is early or late; keep it by NTP", Ends: "the clock is in step with Redis's again"}
	Every(ctx, Seldom, func() {
		offset := offset()
		trouble.Note(ctx, offset.Abs() > Limit, slog.Duration("redis_ahead_by", offset))
	})
}

// A Trouble has a line in the log when it begins and one when it is over, if there are
// words for it. It is one goroutine's.
type Trouble struct {
	Log          *slog.Logger
	Begins, Ends string
	on           bool
}

// Note takes in whether there is trouble now, unless ctx has ended, and logs what is
// new with the attributes.
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

// Failing is Note for what has failed with the error, or not.
func (t *Trouble) Failing(ctx context.Context, err error, attrs ...slog.Attr) {
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	t.Note(ctx, err != nil, attrs...)
}
