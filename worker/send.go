package worker

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/clock"
	"github.com/pushpace/pushpace/worker/queue"
	"github.com/pushpace/pushpace/worker/route"
)

// targetsAtOnce bounds how many targets of one notification are sent to at once. Where
// all workers are bounded together it is one: what has one place is one push.
const targetsAtOnce = 8

func (d *delivery) atOnce() int {
	if slices.ContainsFunc(d.routes, func(r *route.Route) bool { return r != nil && r.Shared() }) {
		return 1
	}
	return targetsAtOnce
}

// send makes one attempt for every target that is still open.
func (h *handler) send(ctx context.Context, d *delivery) {
	if h.Device != nil {
		h.each(ctx, d, (*handler).guard)
	}
	ctx = providers.LeaveWhile(ctx, d.term.Sure)
	if len(d.scopes) > 0 {
		ctx = providers.DepartBy(ctx, time.Now().Add(tooLate))
	}
	h.each(ctx, d, (*handler).sendTo)
}

// each does that to every target that is due, to some of them at once.
func (h *handler) each(ctx context.Context, d *delivery, do func(*handler, context.Context, *delivery, int)) {
	if len(d.Targets) == 1 {
		if d.outcomes[0].due() {
			do(h, ctx, d, 0)
		}
		return
	}
	var wg sync.WaitGroup
	places := make(chan struct{}, d.atOnce())
	for i := range d.Targets {
		if !d.outcomes[i].due() {
			continue
		}
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			do(h, ctx, d, i)
		})
	}
	wg.Wait()
}

// sendTo makes one attempt, unless the route has closed since: that is none.
func (h *handler) sendTo(ctx context.Context, d *delivery, i int) {
	if h.Device != nil {
		defer h.unguard(ctx, d, i)
	}
	r := d.routes[i]
	if by := h.pausedBy(d, i, time.Now()); by != nil {
		d.outcomes[i].blocked, d.outcomes[i].pausedBy = true, by
		return
	}
	if d.metered && !h.renewUnits(ctx, d, i) {
		d.outcomes[i].blocked = true
		return
	}
	inTime, over, ok := r.Within(ctx)
	defer over()
	var done func(providers.Outcome)
	if ok {
		done, ok = r.Allow()
	}
	if !ok {
		d.outcomes[i].blocked = true
		return
	}
	sending, span := h.startSpan(inTime, "send")
	var o providers.Outcome
	defer func() {
		if cause := recover(); cause != nil { // it is this notification's alone
			o = providers.Outcome{
				Kind: providers.Rejected, Reason: providers.Invalid, Concerns: providers.ConcernsMessage, Ambiguous: true,
				Err: fmt.Errorf("a panic while it was sent: %T", cause),
			}
			d.outcomes[i] = outcome{Outcome: o, sent: true}
			traceOutcome(span, r, o)
		}
		done(o)
	}()
	credential := r.Credential()
	began := time.Now()
	o = h.leave(sending, d, i)
	took := time.Since(began)
	traceOutcome(span, r, o)
	if o.Reason == providers.TooLate { // nothing has left: that is no attempt
		d.outcomes[i].blocked, d.outcomes[i].missed = true, true
		return
	}
	if o.Reason == providers.DialFailed {
		h.giveUnitBack(d, i)
	}
	o = h.routes.Learn(ctx, r, o, credential)
	r.Answered(o.Reason, took)
	h.Observer.Attempted(d.App, d.Targets[i].Platform, o, took)
	o.Ambiguous = o.Ambiguous || d.outcomes[i].Ambiguous // an earlier one may still have been taken
	d.outcomes[i] = outcome{Outcome: o, sent: true}
}

// leave sends to the target within the life of its units, and renews them when there is
// no connection before that ends.
func (h *handler) leave(ctx context.Context, d *delivery, i int) providers.Outcome {
	for tries := 1; ; tries++ {
		within, until := ctx, d.outcomes[i].until
		if !until.IsZero() {
			within = providers.LeaveBy(ctx, until)
		}
		o := d.routes[i].Sender.Send(within, d.Notification, d.Targets[i])
		late := o.Reason == providers.TooLate && !providers.Missed(ctx)
		if !late || tries == lateTries || !h.renewUnits(ctx, d, i) {
			return o
		}
	}
}

// guard counts a push to the target's device, or has the target wait.
func (h *handler) guard(ctx context.Context, d *delivery, i int) {
	o := &d.outcomes[i]
	answer, err := h.Meter.Take(ctx, deviceKey(&d.Targets[i]), h.Device(), meter.Ask{Least: 1, Most: 1})
	switch {
	case err != nil:
		if ctx.Err() == nil { // each tries again every few seconds
			h.repeats.Tell(ctx, h.RedisLog, slog.LevelWarn, "nobody can tell what a device may get, and what is for it waits", nil, slog.String("id", d.ID), slog.Any("error", err))
		}
		o.guarded = &queue.Return{Why: queue.DeviceUnmetered, Detail: route.CauseOf(err), After: queue.Again}
	case answer.Units == 0: // the spec may change meanwhile
		o.guarded = &queue.Return{Why: queue.OverDevice, Key: answer.Rule, After: min(answer.Left, longestBlock)}
	}
	o.blocked = o.guarded != nil
}

// unguard gives back what was counted for a push that certainly did not leave.
func (h *handler) unguard(ctx context.Context, d *delivery, i int) {
	if o := &d.outcomes[i]; o.sent && o.Reason != providers.DialFailed {
		return
	}
	_, err := h.Meter.Take(context.WithoutCancel(ctx), deviceKey(&d.Targets[i]), h.Device(), meter.Ask{Most: -1})
	if err != nil {
		h.repeats.Tell(ctx, h.RedisLog, slog.LevelWarn, "a device's limit counts what was not sent", nil, slog.String("id", d.ID), slog.Any("error", err))
	}
}

// deviceKey is the meter's key of a device, which does not tell its token.
func deviceKey(t *push.Target) string {
	return fmt.Sprintf("device/%s/%.16x", t.Platform, sha256.Sum256([]byte(t.Token)))
}

// missed reports whether nothing was sent since there was no connection in time,
// and has it due again.
func (d *delivery) missed() bool {
	missed := false
	for i := range d.outcomes {
		if d.outcomes[i].sent {
			return false // the others come back by themselves
		}
		missed = missed || d.outcomes[i].missed
	}
	for i := range d.outcomes {
		if o := &d.outcomes[i]; o.missed {
			o.blocked, o.missed = false, false
		}
	}
	return missed
}

// costs are the pools of which a push to the target costs a unit each.
func (d *delivery) costs(i int) (needs []meter.Need) {
	for _, pool := range [...]*meter.Pool{d.routes[i].Quota, d.throughput} {
		if pool != nil {
			needs = append(needs, meter.Need{Pool: pool, Units: 1})
		}
	}
	return needs
}

// rank is whom the delivery goes before where units are short.
func (d *delivery) rank(others meter.Rank) meter.Rank {
	if d.Priority == push.Critical {
		return meter.Urgent
	}
	return others
}

// takeUnits takes what the pushes to the targets that are due cost, of all or of none.
func (h *handler) takeUnits(ctx context.Context, d *delivery) bool {
	if !d.metered {
		return true
	}
	now := time.Now()
	var needs []meter.Need
	for i := range d.outcomes {
		if !d.short(i, now) {
			continue
		}
		for _, n := range d.costs(i) {
			if at := slices.IndexFunc(needs, func(o meter.Need) bool { return o.Pool == n.Pool }); at >= 0 {
				needs[at].Units++
			} else {
				needs = append(needs, n)
			}
		}
	}
	if len(needs) == 0 {
		return true
	}
	until, lacking := h.routes.Units.Take(ctx, needs, d.rank(meter.Ordinary), route.QuotaWait)
	for i := range d.outcomes {
		if !d.short(i, now) {
			continue
		}
		if d.outcomes[i].lacks = lacking; lacking == nil && take(needs, d.costs(i)) {
			d.outcomes[i].until = until
		}
	}
	if lacking == nil {
		h.routes.Units.Return(needs, until) // what is left where another pool had fewer
	}
	return lacking == nil
}

// take takes the costs of what there is, or nothing: of many targets, not all may get
// theirs at once.
func take(units, costs []meter.Need) bool {
	at := func(n meter.Need) *meter.Need {
		return &units[slices.IndexFunc(units, func(o meter.Need) bool { return o.Pool == n.Pool })]
	}
	for _, n := range costs {
		if at(n).Units < n.Units {
			return false
		}
	}
	for _, n := range costs {
		at(n).Units -= n.Units
	}
	return true
}

// short reports whether the target is to be sent to at a cost, and has no units for it.
func (d *delivery) short(i int, now time.Time) bool {
	o := &d.outcomes[i]
	return d.routes[i] != nil && o.due() && !now.Before(o.until) && (d.throughput != nil || d.routes[i].Quota != nil)
}

// renewUnits has a push use other units where those that were taken for it have lapsed:
// it is about to leave, with its admission and its place. It waits for them as long as it
// may leave.
func (h *handler) renewUnits(ctx context.Context, d *delivery, i int) bool {
	o := &d.outcomes[i]
	if !d.short(i, time.Now()) {
		return true
	}
	for began := time.Now(); ; {
		asked := time.Now()
		o.until, o.lacks = h.routes.Units.Take(ctx, d.costs(i), d.rank(meter.Begun), tooLate)
		if o.lacks == nil {
			return true
		}
		err := clock.Sleep(ctx, tooLate-time.Since(asked)) // there was to be none in that time
		if err != nil || providers.Missed(ctx) || time.Since(began) > route.QuotaWait {
			return false
		}
	}
}

// giveUnitsBack gives back what was taken and not used.
func (h *handler) giveUnitsBack(d *delivery) {
	if !d.metered {
		return
	}
	for i := range d.outcomes {
		h.giveUnitBack(d, i)
	}
}

func (h *handler) giveUnitBack(d *delivery, i int) {
	if o := &d.outcomes[i]; !o.until.IsZero() {
		h.routes.Units.Return(d.costs(i), o.until)
		o.until = time.Time{}
	}
}

// lacks is what had no units for the delivery; nil when it had all.
func (d *delivery) lacks() *meter.Pool {
	for i := range d.outcomes {
		if over := d.outcomes[i].lacks; over != nil {
			return over
		}
	}
	return nil
}
