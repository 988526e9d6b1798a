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

// delayed holds delayed calls: one call for each key, however often it is requested.
type delayed struct {
	mu      sync.Mutex
	waits   map[lineKey]bool
	awake   map[lineKey]map[string]throttle.Booking // bookings to wake again, by ID
	pending sync.WaitGroup
}

type lineKey struct {
	app, user string
	line      throttle.Line
	others    bool // the key stands for the user's other lines, not for line
	try       int  // the wake's try; 0 for placing a line again
}

// after schedules a call of f after the duration wait, unless a call for the key is pending.
func (l *delayed) after(ctx context.Context, wait time.Duration, key lineKey, f func(context.Context)) {
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
		_ = clock.Sleep(ctx, wait)
		l.mu.Lock()
		delete(l.waits, key)
		l.mu.Unlock()
		f(ctx)
	})
}

// again calls f once after wakeRetryDelay, with these bookings and with the bookings of all calls
// that use the same key meanwhile.
func (l *delayed) again(ctx context.Context, key lineKey, awake []throttle.Booking, f func(context.Context, []throttle.Booking)) {
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
	l.after(ctx, wakeRetryDelay, key, func(ctx context.Context) {
		l.mu.Lock()
		all := slices.SortedFunc(maps.Values(l.awake[key]), func(a, b throttle.Booking) int { return a.Slot.Compare(b.Slot) })
		delete(l.awake, key)
		l.mu.Unlock()
		f(ctx, all)
	})
}

// rest waits until no call is pending, or ctx ends.
func (l *delayed) rest(ctx context.Context) {
	over := make(chan struct{})
	go func() { l.pending.Wait(); close(over) }()
	select {
	case <-over:
	case <-ctx.Done():
	}
}
