package route

import (
	"sync"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// Crowds name users and categories for which the limiter has just rejected a notification because
// the line was full. A pull takes only a few of such jobs and parks the rest in order, so a flood
// of one user delays no other user and no other category. The zero value has no crowd.
type Crowds struct {
	mu    sync.Mutex
	until map[string]time.Time // by push.UserMark
}

const (
	// crowdFor is how long a user is a crowd after the last rejection. A flood that goes on
	// renews it, also while its jobs wait behind those of others for some seconds; after the end of
	// one, pulls take few of the user's jobs for as long.
	crowdFor = 10 * time.Second
	// crowdsMost bounds how many there are: each is an argument of every pull, which takes 64 jobs.
	crowdsMost = 64
)

// Note notes that the user's line of the category is full.
func (c *Crowds) Note(app, user, category string, now time.Time) {
	mark := push.UserMark(app, user, category)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.until == nil {
		c.until = map[string]time.Time{}
	}
	if _, known := c.until[mark]; known || len(c.until) < crowdsMost {
		c.until[mark] = now.Add(crowdFor)
	}
}

// Bounds adds a bound for each crowd, of a pull of so many jobs at most: several crowds leave room
// for others. The critical queue has none, because the limiter rejects nothing critical.
func (c *Crowds) Bounds(all []store.Bound, queue string, most int, now time.Time) []store.Bound {
	c.mu.Lock()
	defer c.mu.Unlock()
	for mark, until := range c.until {
		switch {
		case !now.Before(until):
			delete(c.until, mark)
		case queue != push.Critical.Queue():
			all = append(all, store.Bound{Name: mark, Room: max(1, most/fairShare)})
		}
	}
	return all
}
