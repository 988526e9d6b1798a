package throttle

import (
	"context"
	_ "embed"
	"strconv"

	"github.com/redis/go-redis/v9"
)

//go:embed move.lua
var moveSource string

var moveScript = redis.NewScript(moveSource)

// moveUp moves the entry of a claim whose stamp was too early, and that all rules agreed to
// when it was executed, and returns its stamp then; 0 where it has moved nothing.
func (l *Redis) moveUp(ctx context.Context, c *claim, executed int64) (stamp int64, err error) {
	sets := make([]string, len(c.scopes))
	for i := range sets {
		sets[i] = c.set(i)
	}
	stamp, err = l.script(ctx, moveScript, sets, c.member, strconv.FormatInt(c.stamp, 10), strconv.FormatInt(executed, 10)).Int64()
	if err != nil {
		return 0, StoreError(opAcquire, err)
	}
	return stamp, nil
}
