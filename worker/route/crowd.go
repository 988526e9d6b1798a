package route

import (
	"sync"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// Crowds holds the users and categories with a notification that the limiter has just rejected because of
// the queue limit. A pull takes only a few of their jobs and parks the others in order, so that one
// user's flood delays no other user or category. The zero value has no crowd.
type Crowds struct {
	mu    sync.Mutex
	until map[string]time.Time // by push.UserMark
}

const (
	// crowdFor is how long a user stays a crowd after the last rejection. A continuing flood renews it,
	// even while its jobs wait behind others for some seconds. After the flood, pulls take few of the
	// user's jobs for the same time.
	crowdFor = 10 * time.Second
	// maxCrowds bounds the number of crowds: each is an argument of every pull, which takes 64
	// jobs.
	maxCrowds = 64
)

// Note marks the user's category as a crowd.
func (c *Crowds) Note(app, user, category string, now time.Time) {
	mark := push.UserMark(app, user, category)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.until == nil {
		c.until = map[string]time.Time{}
	}
	if _, known := c.until[mark]; known || len(c.until) < maxCrowds {
		c.until[mark] = now.Add(crowdFor)
	}
}

// Bounds appends a bound for each crowd to all, the bounds of a pull of up to most jobs. Several crowds
// leave capacity for other jobs. The critical queue has no crowds, as the limiter never rejects critical
// notifications.
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
