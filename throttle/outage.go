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

// OnOutage selects the behaviour while the limits' store is unavailable.
type OnOutage string

// The choices. The zero value is Closed.
const (
	Closed OnOutage = "closed" // nothing is granted: the caller gets the error and waits
	Open   OnOutage = "open"   // everything is granted without a check
)

// OutageOptions configure an Outage. The zero value is ready for use.
type OutageOptions struct {
	// Log gets a line at the start and the end of an outage; nil disables it.
	Log *slog.Logger
}

// Outage is a Planner that wraps a Planner and handles the outages of its store.
//
// An outage begins with a call that fails with ErrUnavailable, and ends with the first call that
// the store serves. A timed-out call is retried once before an outage begins, because this
// process may have been stopped or slow. During an outage one call at a time probes the store, a
// quarter of a second after the last failure. The other calls do not wait: they get the last
// error. With Open, Acquire and AcquireAll instead grant with Decision.Unchecked, or defer until the
// end of quiet hours; all other methods return the error in either mode.
//
// If the limiter spreads users over several nodes (Redis.Node), each node has its own outages. An
// outage also ends if no call has used its node for half a minute, because other nodes then serve
// its users. A call that fails because its user's hash slot is moving between nodes is handled as
// in an outage, but begins no outage.
//
// If a call's own context ends, the call returns the context's error and begins no outage.
type Outage struct {
	limiter Planner
	locate  func(context.Context, Request) string // nil for a store of one node
	mode    OnOutage
	log     *slog.Logger

	mu    sync.Mutex
	last  map[string]*outageState // current outages by node
	total OutageStats
}

// OutageStats are counts since the start of the process.
type OutageStats struct {
	Outages   int64 // begun
	Unchecked int64 // granted without a check
	Failed    int64 // failed because of the store
	// Since is the start of the oldest current outage; zero for none. Cause is that outage's last
	// error, which wraps ErrUnavailable; Node is its node, empty for a single server.
	Since time.Time
	Cause error
	Node  string
}

// WithOutage wraps the planner. A mode other than Open is Closed.
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

// Stats returns the counts.
func (o *Outage) Stats() OutageStats {
	o.pruneUnusedNodes()
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
func (o *Outage) Cancel(ctx context.Context, r Request) (FollowUp, error) {
	return withStore(ctx, o, Closed, r, r.validateID(), o.limiter.Cancel)
}

// CancelAll implements Planner.
func (o *Outage) CancelAll(ctx context.Context, all []Request) (FollowUp, error) {
	if err := validateAll(all); err != nil {
		return FollowUp{}, err
	}
	return withStore(ctx, o, Closed, all[0], nil, func(ctx context.Context, _ Request) (FollowUp, error) {
		return o.limiter.CancelAll(ctx, all)
	})
}

// Replan implements Planner.
func (o *Outage) Replan(ctx context.Context, all []Request) (FollowUp, error) {
	if err := validateLines(all); err != nil {
		return FollowUp{}, err
	}
	placed, err := withStore(ctx, o, Closed, all[0], nil, func(ctx context.Context, _ Request) (FollowUp, error) {
		return o.limiter.Replan(ctx, all)
	})
	return placed, err
}

// ClearEarly implements Planner.
func (o *Outage) ClearEarly(ctx context.Context, r Request, woken []Booking) error {
	_, err := withStore(ctx, o, Closed, r, r.validate(), func(ctx context.Context, r Request) (struct{}, error) {
		return struct{}{}, o.limiter.ClearEarly(ctx, r, woken)
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

// unchecked returns the decision while the store is unavailable. Quiet hours need no store: a
// notification in quiet hours by this machine's clock waits for their end.
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

// withStore makes the call unless it is invalid, or during an outage another call probes. The
// mode affects only the counts and the log.
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
		case redisreply.IsMoving(err) && isAway(ctx, err): // one hash slot of the Cluster is moving
			o.answered(node)
			o.unserved(mode)
		case isAway(ctx, err):
			if timedOut(err) && !probe && !again {
				continue
			}
			o.failed(node, mode, probe, err)
		case probe:
			o.endProbe(node)
		}
		return answer, err
	}
}

// timedOut reports whether the error is a timeout: of the call, or of the wait for a free
// connection of this process.
func timedOut(err error) bool {
	var late interface{ Timeout() bool }
	return errors.Is(err, redis.ErrPoolTimeout) || errors.As(err, &late) && late.Timeout()
}

// isAway reports whether the store is unavailable, and not only the caller's deadline expired,
// which may cause a network error before the context is done.
func isAway(ctx context.Context, err error) bool {
	deadline, ok := ctx.Deadline()
	return errors.Is(err, ErrUnavailable) && ctx.Err() == nil && (!ok || time.Now().Before(deadline))
}

// enter returns the outage's last error if the call must not use the store, and whether the call
// is the outage's probe.
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

// unserved counts a call that the store did not serve outside an outage.
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

// failed records a call that the store did not serve. Only a probe sets the time of the next one:
// calls that were running when the outage began do not delay it.
func (o *Outage) failed(node string, mode OnOutage, probe bool, err error) {
	o.mu.Lock()
	now, s := time.Now(), o.last[node]
	began := s == nil
	if began {
		s = &outageState{since: now, asked: now, next: now.Add(probeInterval)}
		o.last[node] = s
		o.total.Outages++
	} else if probe {
		s.probing, s.next = false, now.Add(probeInterval)
	}
	s.err = err
	o.count(s, mode)
	o.mu.Unlock()
	if began {
		o.log.Warn("the limits' store is unavailable", append(where(node), "on_outage", string(o.mode), "error", err)...)
	}
}

func (o *Outage) answered(node string) {
	o.mu.Lock()
	over := o.last[node]
	delete(o.last, node)
	o.mu.Unlock()
	o.ended("the limits' store is back", node, over)
}

// ended logs the end and the size of an outage; nil logs nothing.
func (o *Outage) ended(how, node string, s *outageState) {
	if s != nil {
		o.log.Info(how, append(where(node), "lasted", time.Since(s.since), "calls", s.calls, "unchecked", s.unchecked)...)
	}
}

// nodeRemovedAfter is how long a failing node must be unused until it counts as removed from the
// Cluster. Waiting jobs ask every few seconds, so 30 s without a call mean that no user is on it.
const nodeRemovedAfter = 30 * time.Second

// pruneUnusedNodes ends the outages of removed nodes, which no call can end, because no user is on
// them any more. A single server cannot be removed.
func (o *Outage) pruneUnusedNodes() {
	now := time.Now()
	left := map[string]*outageState{}
	o.mu.Lock()
	for node, s := range o.last {
		if node != "" && now.Sub(s.asked) >= nodeRemovedAfter {
			left[node] = s
			delete(o.last, node)
		}
	}
	o.mu.Unlock()
	for node, s := range left {
		o.ended("the limits' store is not asked any more", node, s)
	}
}

// where returns the log attributes of the node.
func where(node string) []any {
	if node == "" {
		return nil
	}
	return []any{"node", node}
}

func (o *Outage) endProbe(node string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.last[node]; s != nil {
		s.probing = false
	}
}

// probeInterval is the pause between two probes: short, so that a short outage ends soon, and long
// enough for at most four probes a second and process.
const probeInterval = 250 * time.Millisecond

// An outageState is a current outage.
type outageState struct {
	since   time.Time
	asked   time.Time // time of the last call
	err     error     // of the last failed call
	next    time.Time
	probing bool

	calls, unchecked int64 // during the outage
}

// WrapStoreError wraps the error of a failed call. It wraps ErrUnavailable unless the error is about
// one user's keys, because any other error of a store affects every user.
func WrapStoreError(op string, err error) error {
	if redisreply.OfItsKeys(err) {
		return fmt.Errorf("throttle: %s: Redis answered: %w", op, redactedError{err})
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, op, redactedError{err})
}

// redactedError hides the names of users in an error, as logs and probes show it.
type redactedError struct{ error }

// Error implements error.
func (s redactedError) Error() string { return redisreply.TextOf(s.error) }

// Unwrap returns the original error.
func (s redactedError) Unwrap() error { return s.error }
