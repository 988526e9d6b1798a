package route

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/clock"
)

// A Share is a route's leased part of the pushes that all workers together may have in flight. It sizes
// the route's bulkhead. In the last meter.LeaseEvery of the lease the bulkhead has no permits, so that
// the lease's end cuts off few pushes: a provider may have taken a push that is cut off and sent again.
// With a longer pause, one late renewal would leave a worker without permits.
type Share struct {
	route *Route
	lease *meter.Lease
	timer *time.Timer

	mu    sync.Mutex
	until time.Time       // end of the lease: all pushes must be over
	use   context.Context // ends at until
	end   context.CancelFunc
}

// newShare returns the route's share of that many permits of all workers. The bulkhead has no permits
// before the first lease.
func newShare(r *Route, shares meter.Shares, permits int) *Share {
	s := &Share{route: r, lease: meter.NewLease(shares, r.Name(), permits)}
	s.use, s.end = context.WithCancel(context.Background())
	s.timer = time.AfterFunc(0, s.lapse)
	r.Bulkhead.resize(0)
	return s
}

// renew renews the share.
func (s *Share) renew(ctx context.Context) error {
	s.lapse() // a process that was suspended has missed the timer
	holds, wants := s.route.Bulkhead.demand()
	part, until, err := s.lease.Renew(ctx, holds, wants)
	if err != nil {
		return err
	}
	return s.begin(part, until)
}

var (
	errLateReply = errors.New("the reply to the renewal came too late")
	errInFlight  = errors.New("pushes of the last lease are still in flight")
)

// begin applies a lease of part permits, which ends at until. All pushes of an expired lease must end
// first, as the new part may be smaller.
func (s *Share) begin(part int, until time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := time.Until(until) - meter.LeaseEvery
	if left <= 0 {
		return errLateReply
	}
	if !time.Now().Before(s.until) {
		s.cutOff()
		if taken, _ := s.route.Bulkhead.load(); taken > 0 {
			return errInFlight
		}
		s.use, s.end = context.WithCancel(context.Background())
	}
	s.until = until
	s.timer.Reset(left)
	s.route.Bulkhead.resize(part)
	return nil
}

// cutOff cancels the pushes in flight after the end of their lease.
func (s *Share) cutOff() {
	s.route.Bulkhead.resize(0)
	s.end()
}

// lapse removes the permits LeaseEvery before the lease ends, and cancels the pushes when it ends.
func (s *Share) lapse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch left := time.Until(s.until); {
	case left > meter.LeaseEvery:
	case left > 0:
		s.route.Bulkhead.resize(0)
		s.timer.Reset(left)
	default:
		s.cutOff()
	}
}

// Keep renews the share until ctx ends, and then releases it.
func (s *Share) Keep(ctx context.Context, log *slog.Logger) {
	trouble := clock.Trouble{
		Log: log, Begins: "the app's share of the pushes in flight is not renewed: when its lease ends, the app's notifications wait on the queue",
		Ends: "the app's share of the pushes in flight is renewed again",
	}
	app, platform := slog.String("app", s.route.App), slog.String("platform", string(s.route.Platform))
	clock.Every(ctx, meter.LeaseEvery, func() { trouble.Failing(ctx, s.renew(ctx), app, platform) })
	s.mu.Lock()
	s.until = time.Time{}
	s.mu.Unlock()
	s.lapse()
	if taken, _ := s.route.Bulkhead.load(); taken > 0 {
		return // the share is free when its lease ends
	}
	_ = s.lease.Release(context.Background())
}

// Shared reports whether the route has a bound over all workers.
func (r *Route) Shared() bool { return r.share != nil }

// Within returns a context for one push, which ends with the route's share, and the instant before
// which the push must leave. Without a share it returns ctx and zero. The caller calls done after
// the push. ok is false if the share has ended.
func (r *Route) Within(ctx context.Context) (within context.Context, until time.Time, done func(), ok bool) {
	s := r.share
	if s == nil {
		return ctx, time.Time{}, func() {}, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !time.Now().Before(s.until) {
		return ctx, time.Time{}, func() {}, false
	}
	within, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.use, cancel)
	return within, s.until, func() { stop(); cancel() }, true
}

// Shares returns the shares of the routes that have one.
func (rs *Routes) Shares() iter.Seq[*Share] {
	return func(yield func(*Share) bool) {
		for r := range rs.All() {
			if r.share != nil && !yield(r.share) {
				return
			}
		}
	}
}
