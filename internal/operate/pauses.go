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

// PausesNow returns the pauses in force that the operator sees, read anew: a change of them
// is decided by it.
func (o *Operator) PausesNow(ctx context.Context) ([]pause.Pause, error) {
	if err := o.may(Look); err != nil {
		return nil, err
	}
	all, err := o.s.with.Inspect.Pauses(ctx)
	return o.pausesOf(all), err
}

// Pause begins a pause of the bearer's own, or changes the one of the same, and returns it. What is wrong
// with it is an error of type push.Faults, or an *UnknownError; it may be pause.ErrOver or
// pause.ErrTooMany.
func (o *Operator) Pause(ctx context.Context, p pause.Pause) (pause.Pause, error) {
	if err := o.MayPause(p); err != nil {
		return p, err
	}
	p.By = o.who.Name
	defer o.s.pauses.forget() // also where it is not known whether it was done
	if err := o.s.with.Control.Pause(ctx, &p); err != nil {
		return p, err
	}
	e := selected(p)
	e.Count, e.Reason, e.Until = 1, p.Reason, p.Until
	o.did(ctx, Pause, e)
	return p, nil
}

// MayPause returns nil for a pause that Pause would begin, and checks all but its end.
func (o *Operator) MayPause(p pause.Pause) error {
	if err := o.mayOn(Pause, p); err != nil || p.App == "" {
		return err
	}
	return o.knownApp(p.App)
}

// mayOn returns nil where the bearer may begin or end such a pause.
func (o *Operator) mayOn(a *Action, p pause.Pause) error {
	if err := o.may(a); err != nil {
		return err
	}
	if err := p.Validate(); err != nil {
		return err
	}
	return o.own(p.App)
}

// ErrNoPause means that nothing is kept by such a pause.
var ErrNoPause = errors.New("there is no such pause, and no provider of that in trouble")

// Ending returns what Resume would end now. Its errors are those of Resume.
func (o *Operator) Ending(ctx context.Context, p pause.Pause) ([]pause.Pause, error) {
	if err := o.mayOn(Resume, p); err != nil {
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

// Resume ends the pauses of the bearer's own that cover what the pause selects, and returns
// them: see control.Control.Resume. Its error may be ErrNoPause.
func (o *Operator) Resume(ctx context.Context, p pause.Pause) ([]pause.Pause, error) {
	if err := o.mayOn(Resume, p); err != nil {
		return nil, err
	}
	p.By = o.who.Name
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

// selected is an entry about what the pause selects.
func selected(p pause.Pause) auditlog.Entry {
	return auditlog.Entry{Level: limits.Level{App: p.App, Category: p.Category}, Platform: p.Platform}
}

// OwnsPause reports whether it may end the pause.
func (o *Operator) OwnsPause(p pause.Pause) bool { return Resume.Allows(o.who) && o.Sees(p.App) }
