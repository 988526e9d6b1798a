package watch

import (
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

// times are how long a watch lasts after somebody has looked, and for how long, and how
// often, the workers are asked to tell.
type times struct{ look, life, renew time.Duration }

// The workers see within half a second that the key is gone: so they are silent at most
// 10 s after the last one who watches has crashed.
var usual = times{look: 10 * time.Second, life: 8 * time.Second, renew: 3 * time.Second}

// A Watcher sees what all workers tell, by one subscription for all who look, which lasts
// for some seconds after the last look. It is safe for concurrent use.
type Watcher struct {
	client redis.UniversalClient
	store  *pause.Store
	times  times

	following sync.WaitGroup
	stopping  context.Context
	stop      context.CancelFunc

	mu     sync.Mutex
	on     bool
	looked time.Time
	seen   Seen
	err    error // why the workers may not tell
}

// Seen is what was told since a watch began.
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

// Look returns what was seen since somebody began to look, and has the watch go on: who
// looks first sees nothing yet.
func (w *Watcher) Look(ctx context.Context) (Seen, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looked = time.Now()
	if !w.on && w.stopping.Err() == nil {
		channel, err := w.renew(ctx, "asynq:watch:"+rand.Text())
		if err != nil {
			return Seen{}, err
		}
		w.on, w.err, w.seen = true, nil, Seen{Since: w.looked}
		w.following.Go(func() { w.follow(channel) })
	}
	seen := w.seen
	seen.Events = slices.Clone(seen.Events)
	return seen, w.err
}

func (w *Watcher) renew(ctx context.Context, channel string) (string, error) {
	now, err := w.store.Watch(ctx, channel, w.times.life)
	if err != nil {
		return channel, fmt.Errorf("have the workers tell what happens: %w", err)
	}
	return now, nil
}

// follow takes what the workers tell until nobody looks.
func (w *Watcher) follow(channel string) {
	for ok := true; ok; {
		channel, ok = w.hear(channel)
	}
}

// hear takes it by one subscription, and returns where to listen next, if anybody still
// looks. A subscription on which not even a renewal is heard is dead: a connection to a
// server that is gone looks like one on which nothing is said.
func (w *Watcher) hear(channel string) (next string, ok bool) {
	told := w.client.Subscribe(w.stopping, channel)
	defer func() { _ = told.Close() }()
	messages := told.Channel()
	renew := time.NewTicker(w.times.renew)
	defer renew.Stop()
	for silent := false; ; silent = true {
		for due := false; !due; {
			select {
			case m := <-messages:
				silent = false
				w.take(m.Payload)
			case <-renew.C:
				due = true
			case <-w.stopping.Done():
				return "", false
			}
		}
		if w.over() {
			return "", false
		}
		ctx, cancel := context.WithTimeout(w.stopping, w.times.renew)
		now, err := w.renew(ctx, channel)
		cancel()
		w.mu.Lock()
		w.err = err
		w.mu.Unlock()
		if silent || now != channel { // all had gone, and another one has begun
			return now, true
		}
	}
}

// over reports whether nobody has looked for a while: then the watch ends.
func (w *Watcher) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.on = time.Since(w.looked) < w.times.look
	return !w.on
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
