package worker

import (
	"sync"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// crowds are the users whose line was full a moment ago: the limiter rejects their new
// notifications. A pull takes only a few of their jobs and parks the rest in order, so a flood of
// one user does not delay other users. The zero value has none.
type crowds struct {
	mu    sync.Mutex
	until map[string]time.Time // by push.UserMark
}

const (
	// crowdFor is how long a user is a crowd after the last rejection.
	crowdFor = 10 * time.Second
	// crowdRoom is how many of a crowd's jobs a pull takes at most.
	crowdRoom = 8
	// crowdsMost bounds how many there are: each costs every pull a look.
	crowdsMost = 64
)

// note notes that the user's line is full.
func (c *crowds) note(d *delivery, now time.Time) {
	mark := push.UserMark(d.App, d.User)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.until == nil {
		c.until = map[string]time.Time{}
	}
	if _, known := c.until[mark]; known || len(c.until) < crowdsMost {
		c.until[mark] = now.Add(crowdFor)
	}
}

// bounds adds a bound for each crowd. The critical queue has none, because the limiter rejects
// nothing critical.
func (c *crowds) bounds(all []store.Bound, queue string, now time.Time) []store.Bound {
	c.mu.Lock()
	defer c.mu.Unlock()
	for mark, until := range c.until {
		switch {
		case !now.Before(until):
			delete(c.until, mark)
		case queue != push.Critical.Queue():
			all = append(all, store.Bound{Route: mark, Room: crowdRoom})
		}
	}
	return all
}
