package watch

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/worker/pause"
)

const (
	// kept is how many of the last events a Watcher keeps.
	kept = 1000
	// maxBatch bounds what it reads at once, in bytes: several times what a worker tells.
	maxBatch = 1 << 20
)

// times are how long the workers tell after a look, how old that may be before another
// look has them go on, how often a subscription is looked at, and for how long after the
// last look what was seen is kept.
type times struct{ life, renew, check, keep time.Duration }

// The workers see within half a second that nobody looks: so they are silent at most 10 s
// after the last look. Many pages, each of which looks every two seconds, renew as often
// as one.
var usual = times{life: 9 * time.Second, renew: 1800 * time.Millisecond, check: 5 * time.Second, keep: time.Minute}

// A Watcher sees what all workers tell, by one subscription for all who look, which ends
// some seconds after the last look. It is safe for concurrent use.
type Watcher struct {
	client redis.UniversalClient
	store  *pause.Store
	times  times

	following sync.WaitGroup
	stopping  context.Context
	stop      context.CancelFunc

	mu              sync.Mutex
	channel         string // that is followed; "" for none
	looked, renewed time.Time
	err             error // of the last renewal
	seen            Seen
}

// Seen is what was told since somebody began to look, while somebody did.
type Seen struct {
	Since time.Time
	// Events are the last ones, in the order in which they were told.
	Events []Event
	// Left is how many more there were that workers did not tell of.
	Left int64
}

// NewWatcher returns one that does not watch yet, of the workers under the prefix,
// "pushpace" when it is empty.
func NewWatcher(client redis.UniversalClient, prefix string) *Watcher {
	w := &Watcher{client: client, store: pause.NewStore(client, prefix), times: usual}
	w.stopping, w.stop = context.WithCancel(context.Background())
	return w
}

// Close ends the watch, and waits for that.
func (w *Watcher) Close() {
	w.mu.Lock()
	w.stop()
	w.mu.Unlock()
	w.following.Wait()
}

// Look returns what was seen, and has the watch go on for some seconds: who looks first
// sees nothing yet.
func (w *Watcher) Look(ctx context.Context) (Seen, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.renewed) >= w.times.renew && w.stopping.Err() == nil {
		w.err = w.renew(ctx)
		w.renewed = time.Now()
	}
	w.looked = time.Now()
	seen := w.seen
	seen.Events = slices.Clone(seen.Events)
	return seen, w.err
}

// renew has the workers tell, and what they tell followed.
func (w *Watcher) renew(ctx context.Context) error {
	channel, err := w.store.Watch(ctx, cmp.Or(w.channel, "asynq:watch:"+rand.Text()), w.times.life)
	if err != nil {
		return fmt.Errorf("have the workers tell what happens: %w", err)
	}
	if w.channel == "" {
		if time.Since(w.looked) > w.times.keep {
			w.seen = Seen{Since: time.Now()}
		}
		w.following.Go(func() { w.follow(channel) })
	}
	w.channel = channel
	return nil
}

// follow takes what the workers tell until nobody looks.
func (w *Watcher) follow(channel string) {
	for channel != "" {
		channel = w.hear(channel)
	}
}

// hear takes it by one subscription, and returns where to listen next, "" for nowhere. A
// subscription on which not even renewals are heard may be dead: a connection to a server
// that is gone looks like one on which nothing is said.
func (w *Watcher) hear(channel string) (next string) {
	told := w.client.Subscribe(w.stopping, channel)
	defer func() { _ = told.Close() }()
	messages := told.Channel()
	check := time.NewTicker(w.times.check)
	defer check.Stop()
	for silent := true; ; {
		select {
		case m, open := <-messages:
			if !open { // the client is closed
				return ""
			}
			silent = false
			w.take(m.Payload)
		case <-check.C:
			if next := w.followed(); silent || next != channel {
				return next
			}
			silent = true
		case <-w.stopping.Done():
			return ""
		}
	}
}

// followed is the channel to listen to, which is none when nobody has looked for a while.
func (w *Watcher) followed() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.looked) > w.times.life {
		w.channel = ""
	}
	return w.channel
}

// take adds what a worker tells.
func (w *Watcher) take(text string) {
	var b batch
	if text == "" || len(text) > maxBatch || json.Unmarshal([]byte(text), &b) != nil {
		return // a renewal, or none of ours
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.Left += b.Left
	w.seen.Events = append(w.seen.Events, b.Events...)
	w.seen.Events = slices.Delete(w.seen.Events, 0, max(0, len(w.seen.Events)-kept))
}
