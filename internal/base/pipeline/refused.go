package pipeline

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Exec executes the commands of a pipeline and returns the first error, as its
// own Exec does. Where that is none of a command's, each command has it.
//
// go-redis leaves the commands without an error, and with no reply, when Redis
// refuses the connection that they would have gone over: no password, a wrong
// one, too many clients. Read then, each of them says that there is nothing.
func Exec(ctx context.Context, pipe redis.Pipeliner) ([]redis.Cmder, error) {
	cmds, err := pipe.Exec(ctx)
	return cmds, spread(cmds, err)
}

// spread sets an error on all of the commands unless one of them has any. It
// returns why: of a transaction that is discarded, what its command was refused
// for.
func spread(cmds []redis.Cmder, err error) error {
	if err == nil {
		return nil
	}
	for _, cmd := range cmds {
		switch own := cmd.Err(); {
		case own == nil:
		case redis.IsExecAbortError(err) && !redis.IsExecAbortError(own):
			return own
		case !redis.IsExecAbortError(err):
			return err
		}
	}
	for _, cmd := range cmds {
		if cmd.Err() == nil {
			cmd.SetErr(err)
		}
	}
	return err
}

// Refusals has every pipeline and transaction of a client do as Exec says.
type Refusals struct{}

// DialHook implements redis.Hook.
func (Refusals) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (Refusals) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (Refusals) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return spread(cmds, next(ctx, cmds))
	}
}
