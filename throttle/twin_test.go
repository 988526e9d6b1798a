package throttle

import (
	"cmp"
	"context"
	"math"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// TwinOptions configure a Twin. The zero value is ready for use.
type TwinOptions struct {
	// Horizon is how far back a timeline reaches: at least the longest period
	// of any policy. 0 means 24 hours.
	Horizon time.Duration
	// Now is the limiter's clock, in whole microseconds, nil for time.Now.
	Now func() time.Time
}

// A Twin is the Planner that the model makes. It gives the decisions that the script gives.
type Twin struct {
	keep int64 // µs
	now  func() time.Time

	mu    sync.Mutex
	users *simplelru.LRU[twinUser, *model] // by when they were seen, however many
}

type twinUser struct{ app, user string }

// NewTwin returns one without any history.
func NewTwin(o TwinOptions) *Twin {
	o.Horizon = cmp.Or(o.Horizon, 24*time.Hour)
	if o.Now == nil {
		o.Now = time.Now
	}
	users, _ := simplelru.NewLRU[twinUser, *model](math.MaxInt, nil) // which fails for sizes below 1
	return &Twin{keep: o.Horizon.Microseconds(), now: o.Now, users: users}
}

// Len answers of how many users anything is remembered.
func (m *Twin) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(m.now().UnixMicro(), m.users.Len())
	return m.users.Len()
}

// Acquire implements Limiter.
func (m *Twin) Acquire(ctx context.Context, r Request) (Decision, error) {
	return m.ask(ctx, &r, (*visit).acquire, (*visit).settle)
}

// AcquireAll implements Planner.
func (m *Twin) AcquireAll(ctx context.Context, all []Request) ([]Decision, error) {
	if err := validateAll(all); err != nil {
		return nil, err
	}
	var decisions []Decision
	err := m.visit(ctx, &all[0], func(v *visit) {
		for i := range all[:v.alike(all)] {
			if i > 0 {
				v.settle()
				moved := v.moved
				v = v.model.visit(&all[i], v.now, m.keep)
				v.moved = moved
			}
			decisions = append(decisions, v.decision(v.acquire()))
		}
		v.settle()
		for i := range decisions {
			decisions[i].Moved = nil
		}
		decisions[0].Moved = v.moved
	})
	return decisions, err
}

func (m *Twin) ask(ctx context.Context, r *Request, what func(*visit) verdict, end func(*visit)) (d Decision, err error) {
	if err := r.validateID(); err != nil {
		return d, err
	}
	err = m.visit(ctx, r, func(v *visit) {
		d = v.decision(what(v))
		end(v)
		d.Moved = v.moved
	})
	return d, err
}

// Cancel implements Limiter.
func (m *Twin) Cancel(ctx context.Context, r Request) ([]Booking, error) {
	if err := r.validateID(); err != nil {
		return nil, err
	}
	return m.move(ctx, &r, (*visit).cancel)
}

// Inherit implements Planner.
func (m *Twin) Inherit(ctx context.Context, r Request, from string) ([]Booking, error) {
	if err := r.validateHeir(from); err != nil {
		return nil, err
	}
	return m.move(ctx, &r, func(v *visit) { v.inherit(from) })
}

// Reschedule implements Planner.
func (m *Twin) Reschedule(ctx context.Context, r Request) ([]Booking, error) {
	r.ID = ""
	if err := r.validate(); err != nil {
		return nil, err
	}
	return m.move(ctx, &r, (*visit).reschedule)
}

func (m *Twin) move(ctx context.Context, r *Request, what func(*visit)) (moved []Booking, err error) {
	err = m.visit(ctx, r, func(v *visit) {
		what(v)
		moved = v.moved
	})
	return moved, err
}

// Timeline implements Planner.
func (m *Twin) Timeline(ctx context.Context, r Request) (t Timeline, err error) {
	r.ID = ""
	if err := r.validate(); err != nil || len(r.Scopes) == 0 {
		return newTimeline(&r, time.Time{}, newModel()), err
	}
	err = m.visit(ctx, &r, func(v *visit) { t = newTimeline(&r, micros(v.now), v.model) })
	return t, err
}

// visit does a call's work, with the clock read under the lock. A request without
// scopes has none.
func (m *Twin) visit(ctx context.Context, r *Request, do func(*visit)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now().UnixMicro()
	if len(r.Scopes) == 0 {
		do(newModel().visit(r, now, m.keep))
		return nil
	}
	m.forget(now, 2)
	v := m.user(r).visit(r, now, m.keep)
	do(v)
	v.end()
	if !v.anyQuiet() {
		v.zone = zoned{}
	}
	return nil
}

// user returns the request's user, as seen just now.
func (m *Twin) user(r *Request) *model {
	key := twinUser{r.App, r.User}
	u, known := m.users.Get(key)
	if !known {
		u = newModel()
		m.users.Add(key, u)
	}
	return u
}

// forget looks at the users that were seen longest ago, at most that many, and
// drops those of whom nothing counts any more. With two looked at on each call
// there are never many more users than had anything within the horizon.
func (m *Twin) forget(now int64, users int) {
	for range min(users, m.users.Len()) {
		key, u, _ := m.users.GetOldest()
		if u.last() > now-m.keep {
			m.users.Get(key) // it is looked at last from now on
		} else {
			m.users.Remove(key)
		}
	}
}

// last returns the newest instant of the user's, or none.
func (u *model) last() int64 {
	last := none
	for _, sent := range u.sent {
		for _, a := range sent {
			last = max(last, a.at)
		}
	}
	for _, c := range u.classes {
		for _, at := range c.slots {
			last = max(last, at)
		}
	}
	return last
}

// decision makes a Decision of a verdict.
func (v *visit) decision(w verdict) Decision {
	d := Decision{Status: w.status, At: micros(w.at), Now: micros(v.now), Full: w.full && w.status == Deferred, Moved: v.moved}
	if v.held != none {
		d.Slot = micros(v.held)
	}
	if w.at > v.now {
		d.Left = time.Duration(w.at-v.now) * time.Microsecond
		if scope, rule, _ := binding(v.views(false), w.at); scope != nil {
			d.Scope, d.Rule = scope.name, rule
		}
	}
	d.quietly(v.r, v.lists.holds())
	if v.r.Report {
		v.end()
		var counts []int
		for _, s := range v.r.Scopes {
			for _, rate := range s.Policy.Rates {
				all := v.view(s.Name, s.Policy, true)
				counts = append(counts, len(all.marks)-all.upTo(v.now-rate.Period.Microseconds()))
			}
		}
		d.Remaining = v.r.remaining(counts)
	}
	return d
}
