package redistest

import (
	"context"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Trips is a hook that records the commands sent to Redis.
type Trips struct {
	mu  sync.Mutex
	all []string
}

// DialHook implements redis.Hook.
func (c *Trips) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (c *Trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.note(cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (c *Trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.note(cmds...)
		return next(ctx, cmds)
	}
}

func (c *Trips) note(cmds ...redis.Cmder) {
	names := make([]string, len(cmds))
	for i, cmd := range cmds {
		names[i] = cmd.Name()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, strings.Join(names, " "))
}

// Take returns the recorded commands of each round trip, and clears the record.
func (c *Trips) Take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.all
	c.all = nil
	return all
}

// Commands returns the numbers of recorded commands and round trips, and clears the record.
func (c *Trips) Commands() (commands, trips int) {
	all := c.Take()
	return len(strings.Fields(strings.Join(all, " "))), len(all)
}
