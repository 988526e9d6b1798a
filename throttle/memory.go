package throttle

import (
	"container/list"
	"context"
	"maps"
	"sync"
	"time"
)

// MemoryOptions configure a Memory limiter. The zero value is ready for use.
type MemoryOptions struct {
	// Horizon is how far back a timeline reaches: at least the longest period
	// of any policy. 0 means 24 hours.
	Horizon time.Duration
	// Now is the limiter's clock, in whole microseconds, nil for time.Now.
	Now func() time.Time
}

// Memory is the Limiter of one process, for tests and small tools. It gives
// the decisions that Redis gives, and forgets them when the process ends. A user
// without an admission within the horizon, or a slot ahead, is forgotten.
type Memory struct {
	keep int64 // µs
	now  func() time.Time

	mu    sync.Mutex
	users map[memoryUser]*list.Element // of *memoryState
	idle  list.List                    // the user seen longest ago first
}

type memoryUser struct{ app, user string }

type memoryState struct {
	user                   memoryUser
	sent, booked, reserved *set
	categories             map[string]*limited // their sets, by name
	beyond                 map[string]entry    // the last instant of those without a slot, by category
}

// NewMemory returns a limiter without any history.
func NewMemory(o MemoryOptions) *Memory {
	if o.Horizon <= 0 {
		o.Horizon = 24 * time.Hour
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Memory{keep: o.Horizon.Microseconds(), now: o.Now, users: map[memoryUser]*list.Element{}}
}

// Len answers of how many users anything is remembered.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(m.now().UnixMicro(), len(m.users))
	return len(m.users)
}

// Acquire implements Limiter.
func (m *Memory) Acquire(ctx context.Context, r Request) (Decision, error) {
	return m.ask(ctx, &r, (*visit).acquire)
}

// Peek implements Limiter.
func (m *Memory) Peek(ctx context.Context, r Request) (Decision, error) {
	return m.ask(ctx, &r, (*visit).peek)
}

func (m *Memory) ask(ctx context.Context, r *Request, what func(*visit) verdict) (Decision, error) {
	if err := r.validateID(); err != nil {
		return Decision{}, err
	}
	if err := ctx.Err(); err != nil {
		return Decision{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.visit(r)
	if !ok {
		return Decision{Status: Granted, At: time.UnixMicro(v.now)}, nil
	}
	return v.decision(r, what(v)), nil
}

// Cancel implements Limiter.
func (m *Memory) Cancel(ctx context.Context, r Request) ([]Booking, error) {
	if err := r.validateID(); err != nil {
		return nil, err
	}
	if r.Used {
		return m.move(ctx, &r, (*visit).leave)
	}
	return m.move(ctx, &r, (*visit).cancel)
}

// Inherit implements Limiter.
func (m *Memory) Inherit(ctx context.Context, r Request, from string) error {
	if err := r.validateHeir(from); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	v, _ := m.visit(&r)
	inherit := func(line *set) {
		slot, own := line.score(from), line.score(r.ID)
		if slot == none {
			return
		}
		line.drop(from)
		if own == none || slot < own {
			line.put(r.ID, slot)
		}
	}
	v.each(func(s *limited) { inherit(s.booked); inherit(s.line) })
	inherit(v.reserved)
	return nil
}

// Reschedule implements Limiter.
func (m *Memory) Reschedule(ctx context.Context, r Request) ([]Booking, error) {
	r.ID = ""
	if err := r.validate(); err != nil {
		return nil, err
	}
	return m.move(ctx, &r, (*visit).reschedule)
}

func (m *Memory) move(ctx context.Context, r *Request, what func(*visit)) ([]Booking, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.visit(r)
	if !ok {
		return nil, nil
	}
	what(v)
	return v.bookings(r), nil
}

// Timeline implements Limiter.
func (m *Memory) Timeline(ctx context.Context, r Request) (Timeline, error) {
	t := Timeline{Admissions: map[string][]Admission{}}
	if err := r.validate(); err != nil || len(r.Scopes) == 0 {
		return t, err
	}
	if err := ctx.Err(); err != nil {
		return t, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	v, _ := m.visit(&r)
	t.Now = time.UnixMicro(v.now)
	v.each(func(s *limited) {
		name := r.scope(int64(s.which)).Name
		sent := s.sent.list[max(0, s.sent.len()-TimelineEntries):]
		admissions := make([]Admission, len(sent))
		for i, e := range sent {
			admissions[i] = Admission{ID: e.name, At: time.UnixMicro(e.at)}
		}
		t.Admissions[name] = admissions
		line, _ := s.lineAndAhead()
		for _, e := range line.list[:min(line.len(), TimelineEntries)] {
			t.Bookings = append(t.Bookings, Booking{ID: e.name, Scope: name, Slot: time.UnixMicro(e.at)})
		}
	})
	sortBookings(t.Bookings)
	return t, nil
}

// visit prepares a call's work, with the clock read under the lock. A request
// without scopes has none.
func (m *Memory) visit(r *Request) (*visit, bool) {
	v := &visit{now: m.now().UnixMicro(), keep: m.keep, id: r.ID,
		wait: r.Wait.Microseconds(), horizon: r.Horizon.Microseconds(), most: r.MaxBooked, back: r.Returned, reach: r.reach()}
	if len(r.Scopes) == 0 {
		return v, false
	}
	m.forget(v.now, 2)
	u := m.user(r)
	v.reserved, v.beyond = u.reserved, u.beyond
	if g := r.general(); g != nil {
		v.all = g.Policy.limited(1, u.sent, u.booked, nil)
	}
	if c := r.category(); c != nil {
		v.class = c.Name
		sets := u.category(c.Name, v.now-m.keep)
		v.cat = c.Policy.limited(2, sets.sent, sets.booked, sets.line)
	}
	return v, true
}

func (p Policy) limited(which int, sent, booked, line *set) *limited {
	return &limited{
		which: which, rules: p.appendRules(nil), margin: p.margin(), free: p.Unlimited(), exempt: p.Exempt,
		sent: sent, booked: booked, line: line,
	}
}

// user answers the request's user, as seen just now.
func (m *Memory) user(r *Request) *memoryState {
	key := memoryUser{r.App, r.User}
	if e, ok := m.users[key]; ok {
		m.idle.MoveToBack(e)
		return e.Value.(*memoryState)
	}
	u := &memoryState{user: key, sent: newSet(), booked: newSet(), reserved: newSet(), categories: map[string]*limited{}, beyond: map[string]entry{}}
	m.users[key] = m.idle.PushBack(u)
	return u
}

// category answers the category's sets. When they are new, those of which
// nothing counts since the instant are dropped.
func (u *memoryState) category(name string, since int64) *limited {
	c, ok := u.categories[name]
	if !ok {
		maps.DeleteFunc(u.categories, func(_ string, c *limited) bool { return c.last() <= since })
		maps.DeleteFunc(u.beyond, func(_ string, at entry) bool { return at <= since })
		c = &limited{sent: newSet(), booked: newSet(), line: newSet()}
		u.categories[name] = c
	}
	return c
}

// last answers the newest instant of the scope's sets, or none.
func (s *limited) last() int64 {
	return max(s.sent.newest(0), s.booked.newest(0), s.line.newest(0))
}

// forget looks at the users that were seen longest ago, at most that many, and
// drops those of whom nothing counts any more. With two looked at on each call
// there are never many more users than had anything within the horizon.
func (m *Memory) forget(now int64, users int) {
	for range min(users, m.idle.Len()) {
		e := m.idle.Front()
		u := e.Value.(*memoryState)
		if u.last() > now-m.keep {
			m.idle.MoveToBack(e)
			continue
		}
		m.idle.Remove(e)
		delete(m.users, u.user)
	}
}

// last answers the newest instant of the user's sets, or none.
func (u *memoryState) last() int64 {
	last := max(u.sent.newest(0), u.booked.newest(0), u.reserved.newest(0))
	for _, at := range u.beyond {
		last = max(last, at)
	}
	for _, c := range u.categories {
		last = max(last, c.last())
	}
	return last
}

// decision makes a Decision of a verdict.
func (v *visit) decision(r *Request, d verdict) Decision {
	decision := Decision{Status: d.status, At: time.UnixMicro(d.at), Full: d.full, Moved: v.bookings(r)}
	if v.held != none {
		decision.Slot = time.UnixMicro(v.held)
	}
	if d.at > v.now {
		decision.Left = time.Duration(d.at-v.now) * time.Microsecond
		if d.rule > 0 {
			scope := r.scope(int64(d.which))
			decision.Scope, decision.Rule = scope.Name, scope.Policy.ruleName(d.rule-1)
		}
	}
	if r.Report {
		v.each(func(s *limited) {
			scope := r.scope(int64(s.which))
			for _, rate := range scope.Policy.Rates {
				used := s.sent.since(v.now - rate.Period.Microseconds() + 1)
				decision.Remaining = append(decision.Remaining, Remaining{scope.Name, rate, max(0, rate.Count-used)})
			}
		})
	}
	return decision
}

func (v *visit) bookings(r *Request) []Booking {
	var moved []Booking
	for _, s := range v.moved {
		moved = append(moved, Booking{ID: s.id, Scope: r.scope(int64(s.which)).Name, Slot: time.UnixMicro(s.slot)})
	}
	return moved
}
