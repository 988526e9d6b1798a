package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/pushpace/pushpace/internal/base/logdedup"
	"github.com/pushpace/pushpace/throttle/limits"
)

const (
	// mostNamed is how many users a worker names in namedFor.
	mostNamed = 100
	namedFor  = time.Hour
)

// clockBack logs, once an hour each, the users that wait because Redis's clock was set back, at most
// mostNamed an hour. The zero value is ready to use.
type clockBack struct {
	mu    sync.Mutex
	named map[limits.Level]bool
	ends  time.Time // when named is emptied
}

// log logs that the delivery's user waits until Redis's clock has caught up.
func (c *clockBack) log(ctx context.Context, log *slog.Logger, repeats *logdedup.Log, d *delivery, by time.Duration) {
	user := limits.Level{App: d.App, User: d.User}
	switch named, more := c.add(user, time.Now()); {
	case named:
		log.LogAttrs(ctx, slog.LevelWarn, "Redis's clock was set back: the limited notifications of a user wait until it has caught up; see the user's timeline",
			slog.String("app", d.App), slog.String("user", d.User), slog.Duration("in", by.Round(time.Second)))
	case more:
		repeats.Write(ctx, log, slog.LevelWarn, "Redis's clock was set back: more users wait than the log names", nil)
	}
}

// add reports whether the user is to be named, or is one more than are named.
func (c *clockBack) add(user limits.Level, now time.Time) (named, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.After(c.ends) {
		c.named, c.ends = map[limits.Level]bool{}, now.Add(namedFor)
	}
	if c.named[user] || len(c.named) >= mostNamed {
		return false, !c.named[user]
	}
	c.named[user] = true
	return true, false
}
