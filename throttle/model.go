package throttle

import (
	"cmp"
	"maps"
	"slices"
)

// A model is one user's timeline in memory, and the rules of waiting told plainly.
// booking.lua is the same on what Redis keeps, with the same names in the same order.
// It is the limiter of Memory, and what the script is tested against.
//
// Admissions are law: what is granted fits among those sent, whatever waits.
// Bookings are advice: they say who is next, and when to come.
type model struct {
	sent    map[string][]admitted // by scope, oldest first
	general *Policy               // the general limits by which slots were given; nil for none
	closed  list                  // … and the general quiet hours
	zone    zoned                 // … and whose they are
	classes map[string]*class     // of which some wait, by category
	changed int64                 // when limits changed last
}

type admitted struct {
	id string
	at int64
}

// A class is those who wait of a category. They have the same limits, so that any
// of their slots fits any of them: the k-th of the queue holds the k-th slot, and those
// behind the last slot wait without one. So the order of acceptance holds, however slots
// are given, taken and moved.
type class struct {
	policy *Policy  // by which the slots were given; nil for none of its own
	closed list     // … and its quiet hours, which take the place of the general ones
	slots  []int64  // the earliest first, no two alike
	queue  []waiter // in the order of acceptance, then of the IDs
}

type waiter struct {
	id    string
	order int64 // the instant of acceptance
}

func (w waiter) compare(o waiter) int {
	return cmp.Or(cmp.Compare(w.order, o.order), cmp.Compare(w.id, o.id))
}

func newModel() *model {
	return &model{sent: map[string][]admitted{}, classes: map[string]*class{}, changed: -flapping}
}

const (
	// slack is by how much later than it needs a slot may be and stay: nobody is
	// woken for it.
	slack = 20_000
	// flapping is how long workers may disagree about limits: for as long nobody is
	// moved again.
	flapping = 1_000_000
	// waking is how long it may take to wake whoever comes forward, where
	// Request.Wait is not shorter. One with an earlier slot would be late for it.
	waking = 1_000_000
	// settling is for how long whoever was accepted earlier may be on its way: no new slot
	// is sooner, since two that were due would be let through in the order they come;
	// unless it is before others' slots, and would be later by more than as long, or beyond
	// the horizon.
	settling = 100_000
)

// A visit is one call's work on the model.
type visit struct {
	*model
	r       *Request
	now     int64
	keep    int64
	wait    int64
	lead    int64
	class   *class // the request's; one of nobody, if nobody waits
	own     int64  // the notification's admission, taken out; or none
	held    int64  // the slot that it came with; or none
	moved   []Booking
	horizon int64
	lists   lists // the request's
	told    bool  // … by the zone of those who wait, which is another
}

// visit begins a call's work. Nobody comes for slots older than the horizon.
func (u *model) visit(r *Request, now, keep int64) *visit {
	v := &visit{model: u, r: r, now: now, keep: keep, own: none, held: none,
		wait: r.Wait.Microseconds(), horizon: r.Horizon.Microseconds()}
	v.lead = max(settling, min(v.wait, waking))
	for _, c := range u.classes {
		dead := 0
		for dead < len(c.slots) && c.slots[dead] <= now-keep {
			dead++
		}
		c.slots, c.queue = c.slots[dead:], c.queue[dead:]
	}
	if u.forget(); len(u.classes) == 0 {
		u.changed = -flapping
	}
	if v.class = u.classes[r.class()]; v.class == nil {
		v.class = new(class)
	}
	for i, s := range r.Scopes {
		k := slices.IndexFunc(u.sent[s.Name], func(a admitted) bool { return a.id == r.ID })
		if k < 0 {
			continue
		}
		if i == 0 {
			v.own = u.sent[s.Name][k].at
		}
		u.sent[s.Name] = slices.Delete(u.sent[s.Name], k, k+1)
	}
	if v.own != none {
		v.wait = 0 // it may have gone out: it gives way only to an admission now
	}
	v.quiet()
	return v
}

// forget drops the classes of which nobody waits.
func (u *model) forget() {
	maps.DeleteFunc(u.classes, func(_ string, c *class) bool { return len(c.queue) == 0 })
}

// booked is how many slots there are.
func (u *model) booked() int {
	n := 0
	for _, c := range u.classes {
		n += len(c.slots)
	}
	return n
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
			if settled := place(views, v.now+settling, true); settled <= v.now+min(2*settling, v.horizon) {
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
	if w.joins && (w.late || w.at <= v.now+v.horizon) {
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
	if w.status == Deferred && w.at > v.now+v.horizon {
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

// reschedule gives those that wait the earliest slots by the request's limits.
func (v *visit) reschedule() {
	v.adopt(false)
	v.replan(rework{})
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

// unlimited reports whether it has no gap and no rate.
func (p *Policy) unlimited() bool { return p == nil || !p.paces() }

func (p *Policy) same(q *Policy) bool {
	exempt, other := p != nil && p.Exempt, q != nil && q.Exempt
	return exempt == other && (p.unlimited() && q.unlimited() || p.words() == q.words())
}

// adopt reports whether others that wait have slots by other limits than the
// request's. If so, the request's are theirs now, unless others were just now.
func (v *visit) adopt(flaps bool) bool {
	c := v.class
	general, own := v.r.policies()
	same := (len(v.classes) == 0 || v.general.same(general) && v.lists.same(v.closed, v.lists.own)) &&
		(len(c.queue) == 0 || c.policy.same(own) && v.lists.same(v.lists.general, c.closed))
	if same || flaps && v.now >= v.changed && v.now-v.changed < flapping {
		return false
	}
	v.general, c.policy, v.changed = general, own, v.now
	v.closed, c.closed = v.lists.general, v.lists.own
	return true
}
