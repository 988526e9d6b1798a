package redistest

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// Around is a hook that wraps each command, or each pipeline as a whole. It calls next, which sends
// the commands, or answers instead of Redis.
type Around func(ctx context.Context, cmds []redis.Cmder, next func() error) error

// DialHook implements redis.Hook.
func (Around) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (a Around) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return a(ctx, []redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook implements redis.Hook.
func (a Around) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return a(ctx, cmds, func() error { return next(ctx, cmds) })
	}
}

// Fail sets an error on commands, and returns it.
func Fail(cmds []redis.Cmder, err error) error {
	for _, cmd := range cmds {
		cmd.SetErr(err)
	}
	return err
}

// Count counts the commands of a client that match, after their answers.
func Count(client redis.UniversalClient, match func(redis.Cmder) bool) *atomic.Int64 {
	n := new(atomic.Int64)
	Hook(client, Around(func(_ context.Context, cmds []redis.Cmder, next func() error) error {
		err := next()
		for _, cmd := range cmds {
			if match(cmd) {
				n.Add(1)
			}
		}
		return err
	}))
	return n
}

// Script reports whether a command has run a script, named by its hash or given as text.
func Script(cmd redis.Cmder) bool {
	return strings.HasPrefix(cmd.Name(), "eval") && !redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT")
}

// Any matches each command.
func Any(redis.Cmder) bool { return true }
