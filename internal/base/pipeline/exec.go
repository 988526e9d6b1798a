package pipeline

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Exec executes the commands of a pipeline and returns the first error, as the pipeline's own Exec
// does. If no command has that error, Exec sets it on each command.
//
// If Redis refuses the connection (no or a wrong password, too many clients), go-redis leaves the
// commands without error and reply, so that each would read as an empty reply.
func Exec(ctx context.Context, pipe redis.Pipeliner) ([]redis.Cmder, error) {
	cmds, err := pipe.Exec(ctx)
	return cmds, spread(cmds, err)
}

// spread sets the error on all commands, unless a command has an error. It returns the cause: for a
// discarded transaction the error of the refused command.
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

// Refusals is a hook that makes every pipeline and transaction of a client report errors as Exec
// does.
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
