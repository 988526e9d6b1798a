package throttle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
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

// Outage is a Limiter that stands before another and decides what becomes of
// calls while that one's store is away.
//
// An outage begins with a call that the store does not answer (an error that
// wraps ErrUnavailable), and ends with the first that it does. Meanwhile one call at a time tries the store, a quarter of a
// second after the last failure and later once a second; the others do not
// wait: they get the last error, or with Open an Acquire or a Peek is Granted
// with Decision.Unchecked. Cancel, Reschedule and Timeline get the error in
// either mode.
//
// A call whose own context ends says nothing of the store, and gets its error.
type Outage struct {
	limiter Limiter
	mode    OnOutage
	log     *slog.Logger

	mu    sync.Mutex
	state outageState
	total OutageStats
}

// OutageStats are counts since the start of the process.
type OutageStats struct {
	Outages   int64     // begun
	Unchecked int64     // granted without a check
	Failed    int64     // answered with an error for want of the store
	Since     time.Time // when the outage that lasts began; zero for none
	Cause     error     // the last failure of the outage that lasts; nil for none
}

// WithOutage returns the limiter with a stated behaviour when its store is
// away. A mode other than Open is Closed.
func WithOutage(l Limiter, mode OnOutage, o OutageOptions) *Outage {
	if mode != Open {
		mode = Closed
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Outage{limiter: l, mode: mode, log: o.Log}
}

// Stats answers the counts.
func (o *Outage) Stats() OutageStats {
	o.mu.Lock()
	defer o.mu.Unlock()
	stats := o.total
	stats.Since, stats.Cause = o.state.since, o.state.err
	return stats
}

// Acquire implements Limiter.
func (o *Outage) Acquire(ctx context.Context, r Request) (Decision, error) {
	return o.decide(ctx, r, o.limiter.Acquire)
}

// Peek implements Limiter.
func (o *Outage) Peek(ctx context.Context, r Request) (Decision, error) {
	return o.decide(ctx, r, o.limiter.Peek)
}

// Cancel implements Limiter.
func (o *Outage) Cancel(ctx context.Context, r Request) ([]Booking, error) {
	if err := r.validateID(); err != nil {
		return nil, err
	}
	moved, _, err := withStore(ctx, o, Closed, r, o.limiter.Cancel)
	return moved, err
}

// Inherit implements Limiter.
func (o *Outage) Inherit(ctx context.Context, r Request, from string) error {
	if err := r.validateHeir(from); err != nil {
		return err
	}
	_, _, err := withStore(ctx, o, Closed, r, func(ctx context.Context, r Request) (struct{}, error) {
		return struct{}{}, o.limiter.Inherit(ctx, r, from)
	})
	return err
}

// Reschedule implements Limiter.
func (o *Outage) Reschedule(ctx context.Context, r Request) ([]Booking, error) {
	if err := r.validate(); err != nil {
		return nil, err
	}
	moved, _, err := withStore(ctx, o, Closed, r, o.limiter.Reschedule)
	return moved, err
}

// Timeline implements Limiter.
func (o *Outage) Timeline(ctx context.Context, r Request) (Timeline, error) {
	if err := r.validate(); err != nil {
		return Timeline{}, err
	}
	t, _, err := withStore(ctx, o, Closed, r, o.limiter.Timeline)
	return t, err
}

func (o *Outage) decide(ctx context.Context, r Request, f func(context.Context, Request) (Decision, error)) (Decision, error) {
	if err := r.validateID(); err != nil {
		return Decision{}, err
	}
	d, away, err := withStore(ctx, o, o.mode, r, f)
	if away && o.mode == Open {
		return Decision{Status: Granted, At: time.Now(), Unchecked: true}, nil
	}
	return d, err
}

// withStore makes the call unless an outage lasts and it is not its turn to try
// the store. It answers whether the store is away, and counts by the mode.
func withStore[T any](ctx context.Context, o *Outage, mode OnOutage, r Request, f func(context.Context, Request) (T, error)) (answer T, away bool, err error) {
	if len(r.Scopes) == 0 {
		answer, err = f(ctx, r) // asks no store
		return answer, false, err
	}
	if err := ctx.Err(); err != nil {
		return answer, false, fmt.Errorf("throttle: %w", err)
	}
	probe, err := o.enter(mode)
	if err != nil {
		return answer, true, err
	}
	answer, err = f(ctx, r)
	switch {
	case err == nil:
		o.answered()
	case errors.Is(err, ErrUnavailable) && !ended(ctx):
		o.failed(mode, probe, err)
		away = true
	case probe:
		o.learntNothing()
	}
	return answer, away, err
}

// ended reports whether the caller has no more time. Its deadline may show as
// an error of the network before the context knows.
func ended(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

func (o *Outage) enter(mode OnOutage) (probe bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	probe, err = o.state.enter(time.Now())
	if err != nil {
		o.count(mode)
	}
	return probe, err
}

// count counts a call that the store did not answer.
func (o *Outage) count(mode OnOutage) {
	o.state.calls++
	if mode == Open {
		o.state.unchecked++
		o.total.Unchecked++
	} else {
		o.total.Failed++
	}
}

func (o *Outage) failed(mode OnOutage, probe bool, err error) {
	o.mu.Lock()
	began := o.state.fail(time.Now(), probe, err)
	if began {
		o.total.Outages++
	}
	o.count(mode)
	o.mu.Unlock()
	if began {
		o.log.Warn("the limits' store is away", "on_outage", string(o.mode), "error", err)
	}
}

func (o *Outage) answered() {
	o.mu.Lock()
	over := o.state
	o.state = outageState{}
	o.mu.Unlock()
	if over.lasts() {
		o.log.Info("the limits' store is back",
			"lasted", time.Since(over.since), "calls", over.calls, "unchecked", over.unchecked)
	}
}

func (o *Outage) learntNothing() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.state.probing = false
}

// The pause between two tries of the store doubles from the first to the last.
const (
	firstPause = 250 * time.Millisecond
	lastPause  = time.Second
)

// An outageState is what is known of the outage that lasts. The zero value is
// none.
type outageState struct {
	since   time.Time
	err     error // the last
	next    time.Time
	pause   time.Duration
	probing bool

	calls, unchecked int64 // that it met
}

func (s *outageState) lasts() bool { return !s.since.IsZero() }

// enter answers the last error to a call that is not to try the store, and
// whether the call is the one that tries while the others do not.
func (s *outageState) enter(now time.Time) (probe bool, err error) {
	switch {
	case !s.lasts():
		return false, nil
	case s.probing || now.Before(s.next):
		return false, s.err
	}
	s.probing = true
	return true, nil
}

// fail takes in that the store did not answer, and reports whether an outage
// began. Calls that were under way when it began do not lengthen the pause.
func (s *outageState) fail(now time.Time, probe bool, err error) (began bool) {
	switch {
	case !s.lasts():
		*s = outageState{since: now, pause: firstPause, next: now.Add(firstPause)}
		began = true
	case probe:
		s.probing = false
		s.pause = min(2*s.pause, lastPause)
		s.next = now.Add(s.pause)
	}
	s.err = err
	return began
}
