//go:build unix

package loadtest

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pushpace/pushpace/push"
)

const (
	// batch is how many notifications the producer hands over in one round trip, at most: whole
	// rounds.
	batch = 12 * round
	// lanes is how many of these round trips are under way at once, at most.
	lanes = 4
	// window is how many notifications wait for the worker, at most, while it works flat out.
	// The notifications that a round puts off do not count.
	window = 4096
	// pacedTime is how long the last notifications leave at half the rate, at most.
	pacedTime = time.Minute
	// pacedShare is which part of the notifications these are, at most.
	pacedShare = 5
	// nap is how long the producer waits before it looks again whether it may go on.
	nap = 2 * time.Millisecond
	// stall is how long nothing may arrive before the producer goes on all the same: a killed
	// worker's notifications are back within 15 s.
	stall = 20 * time.Second
)

// A feeder hands the plan over: first as fast as the worker takes it, and the last part at
// half of the rate that the worker reached, for the lateness.
type feeder struct {
	*log
	enqueue  func(context.Context, []*push.Notification) []push.Result
	replaced <-chan struct{} // closed when the worker was killed and the next one runs
	rate     float64         // deliveries a second before the last part
	paced    int             // the index at which it begins
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
			firsts = f.firsts.Load() // or the missing ones would fill the window
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

// enough reports whether the rest, from index i on, is the last part, and sets the rate.
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

// hand hands over the notifications from one index up to another.
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

// wait waits until arrived reports true. It returns false if nothing has arrived for the time of
// a stall: notifications are lost, and the judge counts them.
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

// sleep waits for a nap.
func sleep(ctx context.Context) error {
	select {
	case <-time.After(nap):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
