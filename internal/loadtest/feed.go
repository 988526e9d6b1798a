//go:build unix

package loadtest

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pushpace/pushpace/push"
)

const (
	// batch is the most notifications that the producer enqueues in one round trip: whole rounds.
	batch = 12 * round
	// lanes is the most round trips in flight.
	lanes = 4
	// window is the most notifications that wait for the worker while it works flat out, without
	// the notifications that a round puts off.
	window = 4096
	// pacedTime is the longest time of the plan's last part, at half the rate.
	pacedTime = time.Minute
	// pacedShare bounds the last part: at most 1/pacedShare of the notifications.
	pacedShare = 5
	// nap is the time between two checks whether the producer may continue.
	nap = 2 * time.Millisecond
	// stall is the time without an arrival after which the producer continues anyway: a killed
	// worker's notifications are back within 15 s.
	stall = 20 * time.Second
)

// A feeder enqueues the plan: first as fast as the worker takes it, then the last part at half of
// the rate that the worker reached, to measure the lateness.
type feeder struct {
	*log
	enqueue  func(context.Context, []*push.Notification) []push.Result
	replaced <-chan struct{} // closed when a new worker runs after the kill
	rate     float64         // deliveries a second before the last part
	paced    int             // the index at which the last part begins
}

func (f *feeder) feed(ctx context.Context) error {
	handing, ctx := errgroup.WithContext(ctx)
	handing.SetLimit(lanes)
	hand := func(from, upto int) { handing.Go(func() error { return f.hand(ctx, from, upto) }) }
	i, firsts := 0, int64(0)
	room := int64(min(window, f.notifications/8))
	for ctx.Err() == nil && !f.enough(ctx, i) {
		arrived, err := f.wait(ctx, func() bool { return firsts-f.firsts.Load() <= room })
		if err != nil {
			return handing.Wait()
		}
		if !arrived {
			firsts = f.firsts.Load() // otherwise lost notifications would fill the window
		}
		upto := min(i+min(batch, int(room)), f.notifications)
		for k := i; k < upto; k++ {
			if !f.putOff(k) {
				firsts++
			}
		}
		hand(i, upto)
		i = upto
	}
	// Without this wait the backlog would count as late.
	if _, err := f.wait(ctx, func() bool { return f.firsts.Load() >= firsts }); err != nil {
		return handing.Wait()
	}
	f.paced = i
	for began := time.Now(); i < f.notifications; {
		upto := min(f.paced+int(time.Since(began).Seconds()*f.rate/2), i+batch, f.notifications)
		if upto > i {
			hand(i, upto)
			i = upto
		}
		if sleep(ctx) != nil {
			break
		}
	}
	return handing.Wait()
}

// enough reports whether the notifications from index i on are the last part, and sets the rate.
func (f *feeder) enough(ctx context.Context, i int) bool {
	rest := f.notifications - i
	if rest > f.notifications/pacedShare {
		return false
	}
	replaced := func() bool {
		select {
		case <-f.replaced:
			return true
		default:
			return false
		}
	}
	if _, err := f.wait(ctx, replaced); err != nil {
		return false
	}
	f.rate = f.deliveryRate()
	return float64(rest) <= f.rate/2*pacedTime.Seconds()
}

// hand enqueues the notifications from ≤ i < upto.
func (f *feeder) hand(ctx context.Context, from, upto int) error {
	all := make([]*push.Notification, 0, batch)
	for i := from; i < upto; i++ {
		all = append(all, f.notification(i))
	}
	f.log.hand(from, upto)
	for _, result := range f.enqueue(ctx, all) {
		if result.Err != nil {
			return result.Err
		}
	}
	return nil
}

// wait waits until arrived reports true. It returns false if nothing has arrived for the time
// stall: then notifications are lost, and the judge counts them.
func (f *feeder) wait(ctx context.Context, arrived func() bool) (bool, error) {
	delivered, since := f.delivered.Load(), time.Now()
	for !arrived() {
		if now := f.delivered.Load(); now != delivered {
			delivered, since = now, time.Now()
		}
		if time.Since(since) > stall {
			return false, nil
		}
		if err := sleep(ctx); err != nil {
			return false, err
		}
	}
	return true, nil
}

// sleep waits for the time nap, or until ctx ends.
func sleep(ctx context.Context) error {
	select {
	case <-time.After(nap):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
