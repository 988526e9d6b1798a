package worker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pushpace/pushpace/providers"
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
	if len(d.scopes) > 0 {
		ctx = providers.DepartBy(ctx, time.Now().Add(tooLate))
	}
	if len(d.Targets) == 1 {
		if d.outcomes[0].due() {
			h.sendTo(ctx, d, 0)
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
			h.sendTo(ctx, d, i)
		})
	}
	wg.Wait()
}

// sendTo makes one attempt, unless the route has closed since: that is none.
func (h *handler) sendTo(ctx context.Context, d *delivery, i int) {
	r := d.routes[i]
	if by := h.pausedBy(d, i, time.Now()); by != nil {
		d.outcomes[i].blocked, d.outcomes[i].pausedBy = true, by
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
	o = r.Sender.Send(sending, d.Notification, d.Targets[i])
	took := time.Since(began)
	traceOutcome(span, r, o)
	if o.Reason == providers.TooLate { // nothing has left: that is no attempt
		d.outcomes[i].blocked, d.outcomes[i].missed = true, true
		return
	}
	o = h.routes.Learn(ctx, r, o, credential)
	h.Observer.Attempted(d.App, d.Targets[i].Platform, o, took)
	o.Ambiguous = o.Ambiguous || d.outcomes[i].Ambiguous // an earlier one may still have been taken
	d.outcomes[i] = outcome{Outcome: o, sent: true}
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
