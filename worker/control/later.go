package control

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/clock"
)

// later is what is to be done for lines after a while, once for each line however many ask
// for it.
type later struct {
	mu      sync.Mutex
	waits   map[lineKey]bool
	awake   map[lineKey]map[string]throttle.Booking // to be looked for again, by ID
	pending sync.WaitGroup
}

type lineKey struct {
	app, user string
	line      throttle.Line
	others    bool // all other lines
	try       int  // of what is woken, 0 for a line that is placed again
}

// after calls f after that time, unless somebody has asked for that already.
func (l *later) after(ctx context.Context, left time.Duration, key lineKey, f func(context.Context)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waits[key] {
		return
	}
	if l.waits == nil {
		l.waits = map[lineKey]bool{}
	}
	l.waits[key] = true
	ctx = context.WithoutCancel(ctx)
	l.pending.Go(func() {
		_ = clock.Sleep(ctx, left)
		l.mu.Lock()
		delete(l.waits, key)
		l.mu.Unlock()
		f(ctx)
	})
}

// again calls f after wakePause with these bookings and those of other calls until then.
func (l *later) again(ctx context.Context, key lineKey, awake []throttle.Booking, f func(context.Context, []throttle.Booking)) {
	l.mu.Lock()
	if l.awake == nil {
		l.awake = map[lineKey]map[string]throttle.Booking{}
	}
	if l.awake[key] == nil {
		l.awake[key] = map[string]throttle.Booking{}
	}
	for _, b := range awake {
		l.awake[key][b.ID] = b
	}
	l.mu.Unlock()
	l.after(ctx, wakePause, key, func(ctx context.Context) {
		l.mu.Lock()
		all := slices.SortedFunc(maps.Values(l.awake[key]), func(a, b throttle.Booking) int { return a.Slot.Compare(b.Slot) })
		delete(l.awake, key)
		l.mu.Unlock()
		f(ctx, all)
	})
}

// rest waits until nothing is pending, or ctx ends.
func (l *later) rest(ctx context.Context) {
	over := make(chan struct{})
	go func() { l.pending.Wait(); close(over) }()
	select {
	case <-over:
	case <-ctx.Done():
	}
}
