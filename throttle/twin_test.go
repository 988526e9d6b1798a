package throttle

import (
	"cmp"
	"context"
	"math"
	"slices"
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

// end returns when the first interval ends that is not over, or none.
func (l list) end(now int64) int64 {
	for _, i := range l {
		if now < i.Upto*inMicros {
			return i.Upto * inMicros
		}
	}
	return none
}

// alike is as the function. One that asks by another's zone is decided of alone.
func (v *visit) alike(all []Request) int {
	if v.told && v.r.asksQuiet() {
		return 1
	}
	return alike(all)
}

// anyQuiet reports whether those who wait have lists.
func (u *model) anyQuiet() bool {
	for _, c := range u.classes {
		if c.closed != nil {
			return true
		}
	}
	return len(u.classes) > 0 && u.closed != nil
}

// zoning has the zone of those who wait be the notification's where it is the newest.
func (v *visit) zoning() {
	if at := v.said(); v.r.asksQuiet() && at > 0 && (v.zone.in == nil || at > v.zone.accepted) {
		v.zone = zoned{v.r.zone(), at}
	}
}

// pass has one that passes quiet hours go by the law alone, and without a slot, where they
// would hold it.
func (v *visit) pass(w verdict) verdict {
	end := v.lists.holds().end(v.now)
	if !v.r.Passes || w.status == Granted || end == none || w.at < end {
		return w
	}
	at := place(v.limits(true), max(v.now, v.own), false)
	if at >= end {
		return w // it waits for limits
	}
	status := Deferred
	if at <= v.now+v.wait || at == v.own {
		status = Granted
	}
	return verdict{status: status, at: at}
}

func (v *visit) decide() verdict {
	// What it was let through with it keeps, as far as those sent allow, whoever waits.
	if v.own != none && v.held == none {
		if at := place(v.views(true), max(v.now, v.own), false); at <= v.now || at == v.own {
			return verdict{status: Granted, at: at}
		}
	}
	w := verdict{status: Deferred, at: v.held, joins: v.held == none}
	if w.joins {
		// behind all of its class, who have the same limits, and behind all that were
		// let through, also ahead; into the first place beside the others
		from, views, slots := v.now, v.views(false), v.class.slots
		for _, s := range v.r.Scopes {
			for _, r := range s.Policy.appendRules(nil) {
				if sent := v.sent[s.Name]; len(sent) >= r.n && r.period > 0 {
					from = max(from, sent[len(sent)-r.n].at+r.period)
				}
			}
		}
		if n := len(slots); n > 0 {
			from = max(from, slots[n-1]+1)
		}
		if w.fresh = place(views, from, false); w.fresh > v.now {
			w.fresh = place(views, w.fresh, true)
		}
		if v.r.accepted() > 0 && w.fresh > v.now && w.fresh < v.now+settling {
			if settled := place(views, v.now+settling, true); settled <= v.now+min(2*settling, v.r.Horizon.Microseconds()) {
				w.fresh = settled
			}
		}
		w.order = v.order()
		w.rank = v.class.rank(waiter{v.r.ID, w.order})
		ahead := v.wait
		if v.r.accepted() > 0 {
			ahead = 0 // whoever was accepted earlier and comes yet could not take it back
		}
		if w.rank == len(slots) && w.fresh <= v.now+ahead {
			return verdict{status: Granted, at: w.fresh}
		}
		room := v.booked() < v.r.mostBooked()
		switch {
		case w.rank < len(slots):
			w.at = slots[w.rank] // others who were accepted later wait behind it
		case w.rank == len(slots) && room:
			w.at = w.fresh
		default:
			w.full, w.at = true, v.full(w.rank)
		}
		if !room {
			w.fresh = none
		}
		if w.full || w.at > v.now {
			return w
		}
	}
	if w.at > v.now+v.wait {
		return w
	}
	// Ahead it is granted its own slot, and no other's: those would be late in turn.
	near := v.now + v.wait
	for _, s := range v.r.Scopes {
		near = min(near, w.at+s.Policy.margin())
	}
	w.at = place(v.views(true), max(v.now, w.at, v.own), false)
	if w.at <= v.now || w.at == v.own || w.at <= near {
		w.status = Granted
	} else {
		w.late = true
	}
	return w
}

// order is the place in the queue: what waits without a slot keeps its own.
func (v *visit) order() int64 {
	if k := v.class.find(v.r.ID); k >= 0 {
		return v.class.queue[k].order
	}
	if at := v.r.accepted(); at > 0 {
		return at
	}
	if n := len(v.class.queue); n > 0 {
		return max(v.now, v.class.queue[n-1].order+1)
	}
	return v.now
}

// rank is how many of the queue were accepted before it.
func (c *class) rank(w waiter) int {
	n, _ := slices.BinarySearchFunc(c.queue, w, waiter.compare)
	return n
}

// find returns the notification's rank in the queue, or -1.
func (c *class) find(id string) int {
	return slices.IndexFunc(c.queue, func(w waiter) bool { return w.id == id })
}

// full returns when one that there is no slot for is to come back: behind all that have
// one, and those before it, but not before its turn: it is woken then.
func (v *visit) full(rank int) int64 {
	at, before := v.now, rank-len(v.class.slots)
	var behind int64
	for _, s := range v.views(false) {
		for _, m := range s.marks {
			if m.waits {
				at = max(at, m.at)
			}
		}
		for _, r := range s.rules {
			behind = max(behind, ((r.period+int64(r.n)-1)/int64(r.n)+s.margin)*int64(before+r.n))
		}
	}
	return v.lists.holds().opened(at + behind)
}

// find returns the notification's rank in the queue, or -1, and notes its slot.
func (v *visit) find() int {
	rank := v.class.find(v.r.ID)
	v.held = v.class.slot(rank)
	return rank
}

// slot is the one that the class's waiter of that rank holds, or none.
func (c *class) slot(rank int) int64 {
	if rank < 0 || rank >= len(c.slots) {
		return none
	}
	return c.slots[rank]
}

// acquire decides, and leaves the notification where the decision says.
func (v *visit) acquire() verdict {
	v.zoning()
	if v.adopt(true) {
		v.replan(rework{})
	}
	v.fill()
	rank := v.find()
	w := v.pass(v.decide())
	// one that is refused at once has taken no slot, and no other's
	if w.joins && (w.late || w.at <= v.now+v.r.Horizon.Microseconds()) {
		v.book(w)
		rank = v.class.find(v.r.ID)
	}
	if w.late {
		v.replan(rework{from: v.class.slots[rank], class: v.class, rank: rank, floor: w.at})
		w.at = max(w.at, v.class.slots[rank])
		// its slot was given again by the limits of all that wait, which a request's need not be
		if w.at <= v.now+v.wait && place(v.views(true), w.at, false) == w.at {
			w.status = Granted
		}
	}
	if w.status == Deferred && w.at > v.now+v.r.Horizon.Microseconds() {
		w.status = Refused
	}
	if rank >= 0 && w.status != Deferred {
		v.leave(rank)
	}
	if w.status == Granted {
		if w.at == v.own {
			w.at++ // out of reach of the correction of a claim, see the script
		}
		for _, s := range v.r.Scopes {
			v.sent[s.Name] = slices.DeleteFunc(v.sent[s.Name], func(a admitted) bool { return a.at <= v.now-v.keep })
		}
		v.own = w.at
	}
	return w
}

// cancel takes the notification out and has those behind it move up. An admission
// that was used stays.
func (v *visit) cancel() {
	rank, from := v.find(), v.held
	given := v.own != none && !v.r.Used
	if given {
		v.own, from = none, 0
	}
	v.end()
	if rank >= 0 {
		v.leave(rank)
	}
	if from != none {
		v.replan(rework{from: from})
	}
	v.fill()
}

// inherit gives the heir the other's place in the queue, unless its own is
// earlier. Of two slots the later one goes.
func (v *visit) inherit(from string) {
	v.end()
	c := v.class
	switch theirs, own := c.find(from), v.find(); {
	case theirs < 0:
	case own < 0:
		c.queue[theirs].id = v.r.ID
	default:
		c.queue[min(theirs, own)].id = v.r.ID
		slot := c.slot(max(theirs, own))
		if v.leave(max(theirs, own)); slot != none {
			v.replan(rework{from: slot})
			v.fill()
		}
	}
	slices.SortFunc(c.queue, waiter.compare)
}

// book has the notification join the queue, and adds a slot to the class.
func (v *visit) book(w verdict) {
	c := v.class
	if len(v.classes) == 0 {
		v.general, _ = v.r.policies()
		v.closed = v.lists.general
	}
	if len(c.queue) == 0 {
		_, c.policy = v.r.policies()
		c.closed = v.lists.own
		v.classes[v.r.class()] = c
	}
	if c.find(v.r.ID) < 0 {
		c.queue = slices.Insert(c.queue, w.rank, waiter{v.r.ID, w.order})
	}
	if w.fresh != none {
		c.slots = append(c.slots, w.fresh)
	}
}

// leave takes one out of the class, and the slot that it holds.
func (v *visit) leave(rank int) {
	c := v.class
	if rank < len(c.slots) {
		c.slots = slices.Delete(c.slots, rank, rank+1)
	}
	c.queue = slices.Delete(c.queue, rank, rank+1)
	v.forget()
}

// settle ends an acquire: what it has freed is another's.
func (v *visit) settle() {
	v.end()
	v.fill()
}

// end puts the notification's admission where it belongs.
func (v *visit) end() {
	if v.own == none {
		return
	}
	for _, s := range v.r.Scopes {
		sent := v.sent[s.Name]
		i, _ := slices.BinarySearchFunc(sent, admitted{v.r.ID, v.own}, func(a, b admitted) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id))
		})
		v.sent[s.Name] = slices.Insert(sent, i, admitted{v.r.ID, v.own})
	}
	v.own = none
}

// views are those of the request's limits, and its quiet hours.
func (v *visit) views(law bool) []*view { return append(v.limits(law), v.lists.night()...) }

// limits are the views of the request's scopes, the category's first.
func (v *visit) limits(law bool) []*view {
	var views []*view
	for _, s := range slices.Backward(v.r.Scopes) {
		views = append(views, v.view(s.Name, s.Policy, law))
	}
	return views
}

// A verdict is what becomes of a notification, and how.
type verdict struct {
	status Status
	at     int64
	full   bool // deferred without a slot
	// joins says that it has no slot yet: fresh is the one that its class gets for it, or
	// none, and order and rank its place in the queue
	joins bool
	fresh int64
	order int64
	rank  int
	late  bool // it came for its slot, and those sent do not let it go before at
}
