package operate

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/pushpace/pushpace/internal/operate/auditlog"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

// Pauses returns the pauses in force that the operator sees, at most Fresh old.
func (o *Operator) Pauses(ctx context.Context) ([]pause.Pause, error) {
	if err := o.may(Look); err != nil {
		return nil, err
	}
	all, err := o.s.pauses.get(ctx)
	return o.pausesOf(all), err
}

// PausesNow is Pauses without the cache. Use it before a change of the pauses.
func (o *Operator) PausesNow(ctx context.Context) ([]pause.Pause, error) {
	if err := o.may(Look); err != nil {
		return nil, err
	}
	all, err := o.s.with.Inspect.Pauses(ctx)
	return o.pausesOf(all), err
}

// Pause begins a pause of the principal's own app, or changes the existing pause, and returns it.
// The error of an invalid pause is push.Faults or an *UnknownError; the error may be pause.ErrOver
// or pause.ErrTooMany.
func (o *Operator) Pause(ctx context.Context, p pause.Pause) (pause.Pause, error) {
	if err := o.MayPause(p); err != nil {
		return p, err
	}
	p.By = o.principal.Name
	defer o.s.pauses.forget() // even if the outcome is unknown
	if err := o.s.with.Control.Pause(ctx, &p); err != nil {
		return p, err
	}
	e := selected(p)
	e.Count, e.Reason, e.Until = 1, p.Reason, p.Until
	o.did(ctx, Pause, e)
	return p, nil
}

// MayPause returns nil if Pause would begin the pause. It does not check the end.
func (o *Operator) MayPause(p pause.Pause) error {
	if err := o.checkPause(Pause, p); err != nil || p.App == "" {
		return err
	}
	return o.knownApp(p.App)
}

// checkPause returns nil if the principal may begin or end the pause.
func (o *Operator) checkPause(a *Action, p pause.Pause) error {
	if err := o.may(a); err != nil {
		return err
	}
	if err := p.Validate(); err != nil {
		return err
	}
	return o.own(p.App)
}

// ErrNoPause means that no pause and no provider in trouble matches.
var ErrNoPause = errors.New("there is no such pause, and no matching provider is in trouble")

// Ending returns the pauses that Resume would end now. Its errors are Resume's.
func (o *Operator) Ending(ctx context.Context, p pause.Pause) ([]pause.Pause, error) {
	if err := o.checkPause(Resume, p); err != nil {
		return nil, err
	}
	all, err := o.s.with.Inspect.Pauses(ctx)
	if err != nil {
		return nil, err
	}
	ending := slices.DeleteFunc(all, func(s pause.Pause) bool { return !control.Resumes(p, s) })
	if len(ending) == 0 {
		return nil, ErrNoPause
	}
	return ending, nil
}

// Resume ends the pauses that p selects, which the principal must own, and returns them: see
// control.Control.Resume. Its error may be ErrNoPause.
func (o *Operator) Resume(ctx context.Context, p pause.Pause) ([]pause.Pause, error) {
	if err := o.checkPause(Resume, p); err != nil {
		return nil, err
	}
	p.By = o.principal.Name
	defer o.s.pauses.forget()
	ended, err := o.s.with.Control.Resume(ctx, p)
	switch {
	case err != nil:
		return nil, err
	case len(ended) == 0:
		return nil, ErrNoPause
	}
	e := selected(p)
	e.Count = len(ended)
	o.did(ctx, Resume, e, slog.Int("pauses", len(ended)))
	return ended, nil
}

// selected returns an audit entry about the pause's app, category and platform.
func selected(p pause.Pause) auditlog.Entry {
	return auditlog.Entry{Level: limits.Level{App: p.App, Category: p.Category}, Platform: p.Platform}
}

// OwnsPause reports whether the principal may end the pause.
func (o *Operator) OwnsPause(p pause.Pause) bool { return Resume.Allows(o.principal) && o.Sees(p.App) }
