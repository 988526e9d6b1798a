package worker

import (
	"sync"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// crowds are the users whose line was full a moment ago, so that what comes of them is rejected.
// Pulls take few of their jobs at once, and park the others in their order: who floods one user's
// line delays nobody else.
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
	if _, known := c.until[mark]; known || len(c.until) < crowdsMost {
		c.until[mark] = now.Add(crowdFor)
	}
}

// bounds adds those of the crowds to a queue's. Nothing critical is rejected.
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
