package throttle

import (
	"cmp"
	"context"
	"math"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// MemoryOptions configure a Memory limiter. The zero value is ready for use.
type MemoryOptions struct {
	// Horizon is how far back a timeline reaches: at least the longest period
	// of any policy. 0 means 24 hours.
	Horizon time.Duration
	// Now is the limiter's clock, in whole microseconds, nil for time.Now.
	Now func() time.Time
}

// Memory is the Planner of one process, for tests and small tools. It gives
// the decisions that Redis gives, and forgets them when the process ends. A user
// without an admission within the horizon, or a slot ahead, is forgotten.
type Memory struct {
	keep int64 // µs
	now  func() time.Time

	mu    sync.Mutex
	users *simplelru.LRU[memoryUser, *model] // by when they were seen, however many
}

type memoryUser struct{ app, user string }

// NewMemory returns a limiter without any history.
func NewMemory(o MemoryOptions) *Memory {
	o.Horizon = cmp.Or(o.Horizon, 24*time.Hour)
	if o.Now == nil {
		o.Now = time.Now
	}
	users, _ := simplelru.NewLRU[memoryUser, *model](math.MaxInt, nil) // which fails for sizes below 1
	return &Memory{keep: o.Horizon.Microseconds(), now: o.Now, users: users}
}

// Len answers of how many users anything is remembered.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(m.now().UnixMicro(), m.users.Len())
	return m.users.Len()
}

// Acquire implements Limiter.
func (m *Memory) Acquire(ctx context.Context, r Request) (Decision, error) {
	return m.ask(ctx, &r, (*visit).acquire, (*visit).settle)
}

// AcquireAll implements Planner.
func (m *Memory) AcquireAll(ctx context.Context, all []Request) ([]Decision, error) {
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

func (m *Memory) ask(ctx context.Context, r *Request, what func(*visit) verdict, end func(*visit)) (d Decision, err error) {
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
func (m *Memory) Cancel(ctx context.Context, r Request) ([]Booking, error) {
	if err := r.validateID(); err != nil {
		return nil, err
	}
	return m.move(ctx, &r, (*visit).cancel)
}

// Inherit implements Planner.
func (m *Memory) Inherit(ctx context.Context, r Request, from string) ([]Booking, error) {
	if err := r.validateHeir(from); err != nil {
		return nil, err
	}
	return m.move(ctx, &r, func(v *visit) { v.inherit(from) })
}

// Reschedule implements Planner.
func (m *Memory) Reschedule(ctx context.Context, r Request) ([]Booking, error) {
	r.ID = ""
	if err := r.validate(); err != nil {
		return nil, err
	}
	return m.move(ctx, &r, (*visit).reschedule)
}

func (m *Memory) move(ctx context.Context, r *Request, what func(*visit)) (moved []Booking, err error) {
	err = m.visit(ctx, r, func(v *visit) {
		what(v)
		moved = v.moved
	})
	return moved, err
}

// Timeline implements Planner.
func (m *Memory) Timeline(ctx context.Context, r Request) (t Timeline, err error) {
	r.ID = ""
	if err := r.validate(); err != nil || len(r.Scopes) == 0 {
		return newTimeline(&r, time.Time{}, newModel()), err
	}
	err = m.visit(ctx, &r, func(v *visit) { t = newTimeline(&r, micros(v.now), v.model) })
	return t, err
}

// visit does a call's work, with the clock read under the lock. A request without
// scopes has none.
func (m *Memory) visit(ctx context.Context, r *Request, do func(*visit)) error {
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
func (m *Memory) user(r *Request) *model {
	key := memoryUser{r.App, r.User}
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
func (m *Memory) forget(now int64, users int) {
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

func micros(at int64) time.Time { return time.UnixMicro(at) }
