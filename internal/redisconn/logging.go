package redisconn

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// LogTo logs the Redis client's own messages at debug level, for the whole process. Calls return the
// reported failures as errors anyway; without LogTo the client prints the messages.
func LogTo(log *slog.Logger) { redis.SetLogger(clientLog{log}) }

type clientLog struct{ log *slog.Logger }

// Printf takes one message of the client.
func (l clientLog) Printf(ctx context.Context, format string, args ...any) {
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.DebugContext(ctx, "redis client", "message", fmt.Sprintf(format, args...))
	}
}

// Quiet returns a logger that logs at debug level while one of the watches is in an error state or
// about to check. Code whose errors follow from that state uses it: the watch logs the cause once.
func Quiet(log *slog.Logger, watches ...*Watch) *slog.Logger {
	return slog.New(quiet{log.Handler(), watches})
}

type quiet struct {
	slog.Handler
	watches []*Watch
}

// Enabled implements slog.Handler.
func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	if level > slog.LevelDebug && q.isReporting() {
		level = slog.LevelDebug
	}
	return q.Handler.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	if r.Level > slog.LevelDebug && q.isReporting() {
		if r.Level = slog.LevelDebug; !q.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return q.Handler.Handle(ctx, r)
}

func (q quiet) isReporting() bool {
	for _, w := range q.watches {
		if w.isReporting() {
			return true
		}
	}
	return false
}

// WithAttrs implements slog.Handler.
func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quiet{q.Handler.WithAttrs(attrs), q.watches}
}

// WithGroup implements slog.Handler.
func (q quiet) WithGroup(name string) slog.Handler {
	return quiet{q.Handler.WithGroup(name), q.watches}
}
