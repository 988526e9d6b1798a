package worker

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pushpace/pushpace/internal/base/logdedup"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/worker/route"
)

// sender sends to a delivery's targets.
type sender struct {
	*Options
	routes  *route.Routes
	units   units
	holds   *holds
	tracing tracing
	repeats *logdedup.Log
}

// departureTimeout is the longest time from an admission to the start of its first push: half of the 50 ms
// by which pushes may deviate from the limits. The rest is for the way to the provider. It is also how
// near a slot is for which a visit waits: see admission.admit.
const departureTimeout = 25 * time.Millisecond

// send makes one attempt for every target that is due. A route gets its permit back when its pushes are
// answered, so that a slow provider holds no permits of others. The last one keeps its permit until the
// outcome is recorded, and a route without a connection until it is admitted again.
func (s *sender) send(ctx context.Context, d *delivery) {
	if s.Device != nil {
		d.each(func(i int) { s.units.count(ctx, d, i) }, nil)
		d.releaseIdle()
	}
	departure := d.departure()
	var mu sync.Mutex
	d.each(func(i int) { s.sendTo(ctx, d, i, departure) }, func(r *route.Route, targets []int) {
		mu.Lock()
		defer mu.Unlock()
		again := slices.ContainsFunc(targets, func(i int) bool { return d.outcomes[i].skip.reason == notConnected })
		if len(d.permits) > 1 && !again {
			d.releaseOne(r.Bulkhead)
		}
	})
}

// departure bounds when the pushes of d may start. No push starts once another worker may own the
// job. If limits apply, the first push starts within departureTimeout, and later pushes start at
// any time.
func (d *delivery) departure() providers.Departure {
	sure := d.term.Valid
	if len(d.scopes) == 0 {
		return providers.Departure{May: sure}
	}
	latest, started := time.Now().Add(departureTimeout), new(atomic.Int32)
	return providers.Departure{Started: started, May: func() bool {
		return sure() && (started.Load() > 0 || !time.Now().After(latest))
	}}
}

// targetsAtOnce bounds the concurrent pushes of one notification on a route. It is 1 if the permits
// bound the pushes of all workers: a notification has one permit.
func targetsAtOnce(r *route.Route) int {
	if r.Shared() {
		return 1
	}
	return 8
}

// each calls do for every due target, concurrently within targetsAtOnce. When all targets of a route are
// done, it calls ended. ended may be nil.
func (d *delivery) each(do func(i int), ended func(r *route.Route, targets []int)) {
	if len(d.Targets) == 1 {
		if d.outcomes[0].due() {
			do(0)
		}
		return
	}
	due := map[*route.Route][]int{}
	for i, r := range d.routes {
		if d.outcomes[i].due() {
			due[r] = append(due[r], i)
		}
	}
	var routes sync.WaitGroup
	for r, targets := range due {
		routes.Go(func() {
			var pushes errgroup.Group // for its limit alone
			pushes.SetLimit(targetsAtOnce(r))
			for _, i := range targets {
				pushes.Go(func() error { do(i); return nil })
			}
			_ = pushes.Wait()
			if ended != nil {
				ended(r, targets)
			}
		})
	}
	routes.Wait()
}

// sendTo makes one attempt, or skips the target if its route was closed or paused since the admission.
func (s *sender) sendTo(ctx context.Context, d *delivery, i int, departure providers.Departure) {
	r := d.routes[i]
	if p := s.holds.operator(d, i, time.Now()); p != nil {
		d.outcomes[i].skip = skip{reason: pausedByOperator, pause: p}
		return
	}
	if d.metered && !s.units.renew(ctx, d, i) {
		return
	}
	inTime, until, over, ok := r.Within(ctx)
	defer over()
	departure.Before = until
	var done func(route.Lesson)
	if ok {
		done, ok = r.Allow(d.Targets[i])
	}
	if !ok {
		d.outcomes[i].skip = skip{reason: routeClosed}
		if r.Suspect(d.Targets[i]) {
			d.outcomes[i].skip = skip{reason: suspect, left: store.RetryDelay}
		}
		return
	}
	sending, span := s.tracing.start(inTime, "send")
	var o providers.Outcome
	var lesson route.Lesson
	defer func() {
		if cause := recover(); cause != nil { // a panic affects only this notification
			o = providers.Outcome{
				Kind: providers.Rejected, Reason: providers.Invalid, Concerns: providers.ConcernsMessage, Ambiguous: true,
				Err: fmt.Errorf("a panic interrupted the push: %T", cause),
			}
			d.outcomes[i] = outcome{Outcome: o, sent: true}
			traceOutcome(span, r, o)
		}
		done(lesson)
	}()
	credential := r.Credential()
	began := time.Now()
	o = s.sendInTime(sending, d, i, departure)
	took := time.Since(began)
	traceOutcome(span, r, o)
	switch o.Reason { // with these reasons nothing was sent: no attempt
	case providers.TooLate:
		d.outcomes[i].skip = skip{reason: notConnected}
		return
	case providers.OriginBackoff:
		d.outcomes[i].skip = skip{reason: originBackoff, left: o.RetryAfter, cause: o.Err.Error()}
		return
	}
	if o.NotSent {
		s.units.giveOneBack(ctx, d, i)
	}
	o, lesson = s.routes.Learn(ctx, r, d.Targets[i], o, credential)
	if o.Kind == providers.Misconfigured && !lesson.Trouble {
		s.repeats.Write(ctx, s.Log, slog.LevelWarn, "the provider refuses only this push for the app's configuration: only this notification waits",
			[]slog.Attr{slog.String("app", d.App), slog.String("platform", string(r.Platform)), slog.String("reason", string(o.Reason))},
			slog.String("id", d.ID), slog.String("error", route.CauseOf(o.Err)))
	}
	r.Answered(o.Reason, took)
	s.Observer.Attempted(d.App, d.routes[i].Platform, o, took)
	o.Ambiguous = o.Ambiguous || d.outcomes[i].Ambiguous // the provider may have accepted an earlier push
	d.outcomes[i] = outcome{Outcome: o, sent: true, excused: lesson.Trouble}
}

// sendInTime sends to the target before its units expire. If the units expire before a connection
// is open, it renews them.
func (s *sender) sendInTime(ctx context.Context, d *delivery, i int, departure providers.Departure) providers.Outcome {
	for tries := 1; ; tries++ {
		bound := departure
		if until := d.outcomes[i].until; !until.IsZero() && (bound.Before.IsZero() || until.Before(bound.Before)) {
			bound.Before = until
		}
		o := d.routes[i].Sender.Send(ctx, d.Notification, d.Targets[i], bound)
		late := o.Reason == providers.TooLate && !departure.TooLate()
		if !late || tries == maxDepartures || !s.units.renew(ctx, d, i) {
			return o
		}
	}
}

// missed reports whether nothing was sent because there was no connection in time. It makes the targets
// without a connection due again.
func (d *delivery) missed() bool {
	if d.sent() {
		return false // the other targets are retried
	}
	missed := false
	for i := range d.outcomes {
		if o := &d.outcomes[i]; o.skip.reason == notConnected {
			o.skip, missed = skip{}, true
		}
	}
	return missed
}
