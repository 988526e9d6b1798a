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

// A Share is a route's part of the pushes that all workers together may have in flight:
// its bulkhead has as many places as were leased last, and none in the last LeaseEvery before
// the lease ends, so that few pushes are cut off then: they may have been taken, and are sent
// again. With longer, one late renewal would leave a worker without places.
type Share struct {
	route *Route
	lease *meter.Lease
	timer *time.Timer

	mu    sync.Mutex
	until time.Time       // when nothing may be in flight any more
	use   context.Context // ends then
	end   context.CancelFunc
}

// newShare has the route's bulkhead keep to its share of so many places of all workers.
func newShare(r *Route, shares meter.Shares, places int) *Share {
	s := &Share{route: r, lease: meter.NewLease(shares, r.Name(), places)}
	s.use, s.end = context.WithCancel(context.Background())
	s.timer = time.AfterFunc(0, s.lapse)
	r.Bulkhead.resize(0)
	return s
}

// renew renews the share.
func (s *Share) renew(ctx context.Context) error {
	s.lapse() // what has stood still does not know yet
	holds, wants := s.route.Bulkhead.wants()
	part, until, err := s.lease.Renew(ctx, holds, wants)
	if err != nil {
		return err
	}
	return s.begin(part, until)
}

var (
	errLate   = errors.New("the answer came too late")
	errInHand = errors.New("what had a place by the last lease is still in hand")
)

// begin has there be so many places until then. Who has one by a lease that has ended
// since has none by this one, which may be smaller, and so all of them leave first.
func (s *Share) begin(part int, until time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := time.Until(until) - meter.LeaseEvery
	if left <= 0 {
		return errLate
	}
	if !time.Now().Before(s.until) {
		s.cutOff()
		if taken, _ := s.route.Bulkhead.load(); taken > 0 {
			return errInHand
		}
		s.use, s.end = context.WithCancel(context.Background())
	}
	s.until = until
	s.timer.Reset(left)
	s.route.Bulkhead.resize(part)
	return nil
}

// cutOff ends what is in flight by a lease that has ended.
func (s *Share) cutOff() {
	s.route.Bulkhead.resize(0)
	s.end()
}

// lapse takes the places away when the last pushes have begun, and cuts off what is in
// flight when the lease ends.
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

// Keep keeps the share renewed until ctx ends, and gives it back then.
func (s *Share) Keep(ctx context.Context, log *slog.Logger) {
	trouble := clock.Trouble{
		Log: log, Begins: "the app's share of what all workers may have in flight is not renewed: when it ends, what is for the provider waits on the queue",
		Ends: "the app's share of what all workers may have in flight is renewed again",
	}
	app, platform := slog.String("app", s.route.App), slog.String("platform", string(s.route.Platform))
	clock.Every(ctx, meter.LeaseEvery, func() { trouble.Failing(ctx, s.renew(ctx), app, platform) })
	s.mu.Lock()
	s.until = time.Time{}
	s.mu.Unlock()
	s.lapse()
	if taken, _ := s.route.Bulkhead.load(); taken > 0 {
		return // it is free when its lease ends
	}
	_ = s.lease.Release(context.Background())
}

// Shared reports whether the route has a share of what all workers may have in flight.
func (r *Route) Shared() bool { return r.share != nil }

// Within returns a context for one push, which ends with the route's share, and the instant
// before which the push has to leave. Without a share it returns ctx and zero. The caller calls
// over when the push is over. ok is false when the share has ended.
func (r *Route) Within(ctx context.Context) (within context.Context, until time.Time, over func(), ok bool) {
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

// Shares are those of the routes that have one.
func (rs *Routes) Shares() iter.Seq[*Share] {
	return func(yield func(*Share) bool) {
		for r := range rs.All() {
			if r.share != nil && !yield(r.share) {
				return
			}
		}
	}
}
