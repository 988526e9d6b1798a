package throttle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/redisreply"
)

// OnOutage is what happens while the limits' store is away.
type OnOutage string

// The choices. The zero value is Closed.
const (
	Closed OnOutage = "closed" // nothing is admitted: the caller gets the error, and waits
	Open   OnOutage = "open"   // everything is admitted, unchecked
)

// OutageOptions configure an Outage. The zero value is ready for use.
type OutageOptions struct {
	// Log gets a line when an outage begins and one when it ends; nil for none.
	Log *slog.Logger
}

// Outage is a Planner that stands before another and decides what becomes of
// calls while that one's store is away.
//
// An outage begins with a call that the store does not serve (an error that
// wraps ErrUnavailable), and ends with the first that it does. A call that times out is
// made once more before: its time may have passed in this process, as when that was
// stopped for long, or behind other calls. Meanwhile one
// call at a time tries the store, a quarter of a second after the last failure;
// the others do not wait: they get the last error, or
// with Open an Acquire is Granted with Decision.Unchecked, or waits for the
// end of quiet hours. The other calls get the error in either mode.
//
// Where the limiter keeps users on several nodes and says on which (Redis.Node), each
// has outages of its own. One of a node that nobody has asked for half a minute is
// over: another serves its users. A call that is not served because a user's timeline is
// just moved from one node to another ends as in an outage, and begins none.
//
// A call whose own context ends says nothing of the store, and gets its error.
type Outage struct {
	limiter Planner
	locate  func(context.Context, Request) string // nil for a store in one place
	mode    OnOutage
	log     *slog.Logger

	mu    sync.Mutex
	last  map[string]*outageState // those that last, by node
	total OutageStats
}

// OutageStats are counts since the start of the process.
type OutageStats struct {
	Outages   int64 // begun
	Unchecked int64 // granted without a check
	Failed    int64 // answered with an error for want of the store
	// Since is when the first of the outages that last began; zero for none. Cause
	// is what its store last said, and wraps ErrUnavailable; Node is the one that
	// said so where there are several.
	Since time.Time
	Cause error
	Node  string
}

// WithOutage returns the planner with a stated behaviour when its store is
// away. A mode other than Open is Closed.
func WithOutage(l Planner, mode OnOutage, o OutageOptions) *Outage {
	if mode != Open {
		mode = Closed
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	outage := &Outage{limiter: l, mode: mode, log: o.Log, last: map[string]*outageState{}}
	if located, ok := l.(interface {
		Node(context.Context, Request) string
	}); ok {
		outage.locate = located.Node
	}
	return outage
}

// Stats answers the counts.
func (o *Outage) Stats() OutageStats {
	o.forgetUnasked()
	o.mu.Lock()
	defer o.mu.Unlock()
	stats := o.total
	for node, s := range o.last {
		if stats.Since.IsZero() || s.since.Before(stats.Since) {
			stats.Since, stats.Cause, stats.Node = s.since, s.err, node
		}
	}
	return stats
}

// Acquire implements Limiter.
func (o *Outage) Acquire(ctx context.Context, r Request) (Decision, error) {
	return o.decide(ctx, r, o.limiter.Acquire)
}

// AcquireAll implements Planner.
func (o *Outage) AcquireAll(ctx context.Context, all []Request) ([]Decision, error) {
	if err := validateAll(all); err != nil {
		return nil, err
	}
	decisions, err := withStore(ctx, o, o.mode, all[0], nil, func(ctx context.Context, _ Request) ([]Decision, error) {
		return o.limiter.AcquireAll(ctx, all)
	})
	if o.mode == Open && isAway(ctx, err) {
		return []Decision{unchecked(&all[0])}, nil
	}
	return decisions, err
}

// Cancel implements Limiter.
func (o *Outage) Cancel(ctx context.Context, r Request) (Placed, error) {
	return withStore(ctx, o, Closed, r, r.validateID(), o.limiter.Cancel)
}

// CancelAll implements Planner.
func (o *Outage) CancelAll(ctx context.Context, all []Request) (Placed, error) {
	if err := validateAll(all); err != nil {
		return Placed{}, err
	}
	return withStore(ctx, o, Closed, all[0], nil, func(ctx context.Context, _ Request) (Placed, error) {
		return o.limiter.CancelAll(ctx, all)
	})
}

// Replan implements Planner.
func (o *Outage) Replan(ctx context.Context, all []Request) (Placed, error) {
	if err := validateLines(all); err != nil {
		return Placed{}, err
	}
	placed, err := withStore(ctx, o, Closed, all[0], nil, func(ctx context.Context, _ Request) (Placed, error) {
		return o.limiter.Replan(ctx, all)
	})
	return placed, err
}

// Told implements Planner.
func (o *Outage) Told(ctx context.Context, r Request, woken []Booking) error {
	_, err := withStore(ctx, o, Closed, r, r.validate(), func(ctx context.Context, r Request) (struct{}, error) {
		return struct{}{}, o.limiter.Told(ctx, r, woken)
	})
	return err
}

// Timeline implements Planner.
func (o *Outage) Timeline(ctx context.Context, r Request) (Timeline, error) {
	return withStore(ctx, o, Closed, r, r.validate(), o.limiter.Timeline)
}

func (o *Outage) decide(ctx context.Context, r Request, f func(context.Context, Request) (Decision, error)) (Decision, error) {
	d, err := withStore(ctx, o, o.mode, r, r.validateID(), f)
	if o.mode == Open && isAway(ctx, err) {
		return unchecked(&r), nil
	}
	return d, err
}

// unchecked is the answer while the store is away. What quiet hours hold by this machine's
// clock waits for their end: they need no store.
func unchecked(r *Request) Decision {
	now := time.Now()
	d := grantedAt(now)
	d.Unchecked = true
	if end := r.until(now.UnixMicro(), now.UnixMicro()); end > 0 {
		d.At, d.Quiet = micros(end), micros(end)
		d.Left = d.At.Sub(now).Truncate(time.Microsecond)
		if d.Status = Deferred; d.Left > r.Horizon {
			d.Status = Refused
		}
		_, d.Scope = r.quietPolicy()
		d.Rule = QuietRule
	}
	return d
}

// withStore makes the call unless it is invalid, or an outage lasts and it is not its
// turn to try the store. The mode changes the counts and the log, not the answer.
func withStore[T any](ctx context.Context, o *Outage, mode OnOutage, r Request, invalid error, f func(context.Context, Request) (T, error)) (answer T, err error) {
	if invalid != nil {
		return answer, invalid
	}
	if len(r.Scopes) == 0 {
		return f(ctx, r) // asks no store
	}
	if err := ctx.Err(); err != nil {
		return answer, fmt.Errorf("throttle: %w", err)
	}
	node := ""
	if o.locate != nil {
		node = o.locate(ctx, r)
	}
	for again := false; ; again = true {
		probe, err := o.enter(node, mode)
		if err != nil {
			return answer, err
		}
		answer, err = f(ctx, r)
		switch {
		case err == nil:
			o.answered(node)
		case redisreply.Moving(err) && isAway(ctx, err): // one hash slot of the Cluster moves
			o.answered(node)
			o.unserved(mode)
		case isAway(ctx, err):
			if timedOut(err) && !probe && !again {
				continue
			}
			o.failed(node, mode, probe, err)
		case probe:
			o.learntNothing(node)
		}
		return answer, err
	}
}

// timedOut reports whether the error is that a time-out is over, that for a connection of
// this process among them.
func timedOut(err error) bool {
	var late interface{ Timeout() bool }
	return errors.Is(err, redis.ErrPoolTimeout) || errors.As(err, &late) && late.Timeout()
}

// isAway reports whether the error is that the store is away, and not that the caller
// has no more time: its deadline may show as an error of the network before the context
// knows.
func isAway(ctx context.Context, err error) bool {
	deadline, ok := ctx.Deadline()
	return errors.Is(err, ErrUnavailable) && ctx.Err() == nil && (!ok || time.Now().Before(deadline))
}

// enter returns the last error to a call that is not to try the store while an outage
// lasts, and whether the call is the one that tries while the others do not.
func (o *Outage) enter(node string, mode OnOutage) (probe bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.last[node]
	if s == nil {
		return false, nil
	}
	s.asked = time.Now()
	if s.probing || s.asked.Before(s.next) {
		o.count(s, mode)
		return false, s.err
	}
	s.probing = true
	return true, nil
}

// unserved counts a call that the store did not serve, though there is no outage.
func (o *Outage) unserved(mode OnOutage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count(new(outageState), mode)
}

// count counts a call that the store did not serve.
func (o *Outage) count(s *outageState, mode OnOutage) {
	s.calls++
	if mode == Open {
		s.unchecked++
		o.total.Unchecked++
	} else {
		o.total.Failed++
	}
}

// failed takes in that the store did not serve a call. Calls that were under way
// when the outage began do not put off the next try.
func (o *Outage) failed(node string, mode OnOutage, probe bool, err error) {
	o.mu.Lock()
	now, s := time.Now(), o.last[node]
	began := s == nil
	if began {
		s = &outageState{since: now, asked: now, next: now.Add(tryPause)}
		o.last[node] = s
		o.total.Outages++
	} else if probe {
		s.probing, s.next = false, now.Add(tryPause)
	}
	s.err = err
	o.count(s, mode)
	o.mu.Unlock()
	if began {
		o.log.Warn("the limits' store is away", append(where(node), "on_outage", string(o.mode), "error", err)...)
	}
}

func (o *Outage) answered(node string) {
	o.mu.Lock()
	over := o.last[node]
	delete(o.last, node)
	o.mu.Unlock()
	o.ended("the limits' store is back", node, over)
}

// ended logs the end of an outage and how large it was; nil is none.
func (o *Outage) ended(how, node string, s *outageState) {
	if s != nil {
		o.log.Info(how, append(where(node), "lasted", time.Since(s.since), "calls", s.calls, "unchecked", s.unchecked)...)
	}
}

// leftAfter is after how long without a call a node in trouble is taken to have left the Cluster:
// jobs that wait for it ask every few seconds, so that 30 s without any means that none do.
const leftAfter = 30 * time.Second

// forgetUnasked ends the outages of nodes that have left. No call can: whoever
// asked one is served by another. The one server of a limiter cannot leave.
func (o *Outage) forgetUnasked() {
	now := time.Now()
	left := map[string]*outageState{}
	o.mu.Lock()
	for node, s := range o.last {
		if node != "" && now.Sub(s.asked) >= leftAfter {
			left[node] = s
			delete(o.last, node)
		}
	}
	o.mu.Unlock()
	for node, s := range left {
		o.ended("the limits' store is not asked any more", node, s)
	}
}

// where names the node for the log.
func where(node string) []any {
	if node == "" {
		return nil
	}
	return []any{"node", node}
}

func (o *Outage) learntNothing(node string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.last[node]; s != nil {
		s.probing = false
	}
}

// tryPause is the pause between two tries of the store: a short outage ends soon, and in a long one
// each process costs the store four tries a second at most.
const tryPause = 250 * time.Millisecond

// An outageState is what is known of an outage that lasts.
type outageState struct {
	since   time.Time
	asked   time.Time // by a call, the last time
	err     error     // the last
	next    time.Time
	probing bool

	calls, unchecked int64 // that it met
}

// StoreError is the error of a call that failed. Whatever a store answers is its
// own trouble, and concerns every user, unless it is about what is kept of one.
func StoreError(op string, err error) error {
	if redisreply.OfItsKeys(err) {
		return fmt.Errorf("throttle: %s: Redis answered: %w", op, said{err})
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, op, said{err})
}

// said is an error that names no user: logs have it, and whoever asks a probe.
type said struct{ error }

// Error implements error.
func (s said) Error() string { return redisreply.Said(s.error) }

// Unwrap answers the error as it is.
func (s said) Unwrap() error { return s.error }
