package throttle

import (
	"cmp"
	"maps"
	"slices"
)

// A model is one user's timeline in memory, and the rules of waiting told plainly:
// what booking.lua does with sorted sets, pages and budgets is done here with slices
// and loops. It is the limiter of Memory, and what the script is tested against.
//
// Admissions are law: what is granted fits among those sent, whatever waits.
// Bookings are advice: they say who is next, and when to come.
type model struct {
	sent    map[string][]admitted // by scope, oldest first
	general *Policy               // the general limits by which slots were given; nil for none
	classes map[string]*class     // of which some wait, by category
	changed int64                 // when limits changed last
	beyond  map[string]int64      // the last instant told to one without a slot, by category
}

type admitted struct {
	id string
	at int64
}

// A class is those who wait of a category. They have the same limits, so that any
// of their slots fits any of them: the k-th of the queue holds the k-th slot. So the
// order of acceptance holds, however slots are given, taken and moved.
type class struct {
	policy *Policy  // by which the slots were given; nil for none of its own
	slots  []int64  // the earliest first
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
	return &model{sent: map[string][]admitted{}, classes: map[string]*class{}, changed: -flapping, beyond: map[string]int64{}}
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
	return v
}

// forget drops the classes of which nobody waits.
func (u *model) forget() {
	maps.DeleteFunc(u.classes, func(_ string, c *class) bool { return len(c.slots) == 0 })
}

// A verdict is what becomes of a notification, and how.
type verdict struct {
	status Status
	at     int64
	full   bool  // deferred without a slot
	fresh  int64 // the slot that its class gets for it, or none
	order  int64 // its place in the queue then
	late   bool  // it came for its slot, and those sent do not let it go before at
}

func (v *visit) decide() verdict {
	// What it was let through with it keeps, as far as those sent allow, whoever waits.
	if v.own != none && v.held == none {
		if at := place(v.views(true), max(v.now, v.own), false); at <= v.now || at == v.own {
			return verdict{status: Granted, at: at, fresh: none}
		}
	}
	w := verdict{status: Deferred, at: v.held, fresh: none}
	if v.held == none {
		// behind all of its class, who have the same limits, and behind all that were
		// let through, also ahead; into the first place beside the others
		from, views := v.now, v.views(false)
		for _, s := range v.r.Scopes {
			for _, r := range s.Policy.appendRules(nil) {
				if sent := v.sent[s.Name]; len(sent) >= r.n && r.period > 0 {
					from = max(from, sent[len(sent)-r.n].at+r.period)
				}
			}
		}
		if n := len(v.class.slots); n > 0 {
			from = max(from, v.class.slots[n-1])
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
		w.at = w.fresh
		if rank := v.class.rank(waiter{v.r.ID, w.order}); rank < len(v.class.slots) {
			w.at = v.class.slots[rank] // others who were accepted later wait behind it
		}
		last, ahead := w.at == w.fresh, v.wait
		if v.r.accepted() > 0 {
			ahead = 0 // whoever was accepted earlier and comes yet could not take it back
		}
		if last && w.at <= v.now+ahead {
			return verdict{status: Granted, at: w.at, fresh: none}
		}
		if at, full := v.full(); full {
			return verdict{status: Deferred, at: at, full: true, fresh: none}
		}
	}
	if w.at > v.now+v.wait || w.fresh != none && w.at > v.now {
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

// order is a newcomer's place in the queue.
func (v *visit) order() int64 {
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

// full reports whether there is no room for one more who waits, and when a
// newcomer is to come back: behind all, and behind those that there was no room for
// before. While any of these is to come, half the room is theirs.
func (v *visit) full() (at int64, full bool) {
	waiting, room := 0, 2*v.r.MaxBooked
	for _, c := range v.classes {
		waiting += len(c.slots)
	}
	last := v.beyond[v.r.class()]
	if last > v.now && !v.r.Returned {
		room = v.r.MaxBooked
	}
	if v.r.MaxBooked == 0 || 2*waiting < room {
		return 0, false
	}
	at = max(v.now, last)
	var distance int64
	for _, s := range v.views(false) {
		for _, m := range s.marks {
			if m.waits {
				at = max(at, m.at)
			}
		}
		for _, r := range s.rules {
			distance = max(distance, (r.period+int64(r.n)-1)/int64(r.n)+s.margin)
		}
	}
	return at + distance, true
}

// find returns the notification's rank in the queue, or -1, and notes its slot.
func (v *visit) find() int {
	rank := slices.IndexFunc(v.class.queue, func(w waiter) bool { return w.id == v.r.ID })
	if rank >= 0 {
		v.held = v.class.slots[rank]
	}
	return rank
}

// acquire decides, and leaves the notification where the decision says.
func (v *visit) acquire() verdict {
	if v.adopt(true) {
		v.replan(rework{})
	}
	rank := v.find()
	w := v.decide()
	// one that is refused at once has taken no slot, and no other's
	if w.fresh != none && (w.late || w.at <= v.now+v.horizon) {
		v.book(w.fresh, w.order)
		rank = v.class.rank(waiter{v.r.ID, w.order})
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
	if w.full && w.status == Deferred {
		v.beyond[v.r.class()] = w.at
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

// peek decides, and changes nothing.
func (v *visit) peek() verdict {
	v.find()
	w := v.decide()
	switch {
	case w.late && w.at <= v.now+v.wait:
		w.status = Granted
	case w.status == Deferred && w.at > v.now+v.horizon:
		w.status = Refused
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
	if rank >= 0 || given {
		v.replan(rework{from: from})
	}
}

// reschedule gives those that wait the earliest slots by the request's limits.
func (v *visit) reschedule() {
	v.adopt(false)
	v.replan(rework{})
}

// inherit gives the heir the other's place in the queue, unless its own is
// earlier. Of two slots the later one goes.
func (v *visit) inherit(from string) {
	v.end()
	c := v.class
	theirs, own := slices.IndexFunc(c.queue, func(w waiter) bool { return w.id == from }), v.find()
	switch {
	case theirs < 0:
	case own < 0:
		c.queue[theirs].id = v.r.ID
	default:
		c.queue[min(theirs, own)].id = v.r.ID
		from := c.slots[max(theirs, own)]
		v.leave(max(theirs, own))
		slices.SortFunc(c.queue, waiter.compare)
		v.replan(rework{from: from})
	}
	slices.SortFunc(c.queue, waiter.compare)
}

// book adds a slot to the class, and the notification to its queue.
func (v *visit) book(at, order int64) {
	c := v.class
	general, own := v.r.policies()
	if len(v.classes) == 0 {
		v.general = general
	}
	if len(c.slots) == 0 {
		v.classes[v.r.class()], c.policy = c, own
	}
	i, _ := slices.BinarySearch(c.slots, at)
	c.slots = slices.Insert(c.slots, i, at)
	w := waiter{v.r.ID, order}
	c.queue = slices.Insert(c.queue, c.rank(w), w)
}

// leave takes one out of the class, and the slot it holds.
func (v *visit) leave(rank int) {
	v.class.slots = slices.Delete(v.class.slots, rank, rank+1)
	v.class.queue = slices.Delete(v.class.queue, rank, rank+1)
	v.forget()
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

func (p *Policy) unlimited() bool { return p == nil || p.Unlimited() }

func (p *Policy) same(q *Policy) bool {
	exempt, other := p != nil && p.Exempt, q != nil && q.Exempt
	return exempt == other && (p.unlimited() && q.unlimited() || p.words() == q.words())
}

// adopt reports whether others that wait have slots by other limits than the
// request's. If so, the request's are theirs now, unless others were just now.
func (v *visit) adopt(flaps bool) bool {
	c := v.class
	general, own := v.r.policies()
	same := (len(v.classes) == 0 || v.general.same(general)) && (len(c.slots) == 0 || c.policy.same(own))
	if same || flaps && v.now >= v.changed && v.now-v.changed < flapping {
		return false
	}
	v.general, c.policy, v.changed = general, own, v.now
	return true
}

// A rework says which slots a replan gives again.
type rework struct {
	from int64 // those from that instant on
	// none of that instant is before the one of that rank in the class, which itself is
	// not before the floor: its holder came for it, and those sent do not let it go sooner
	class *class
	rank  int
	floor int64
}

// replan gives slots, in the order they have, the first places after each other,
// among those sent and the slots before. Without a change they all stay. Those that
// nothing limits any more wait no longer. It tells what comes forward.
func (v *visit) replan(p rework) {
	type pending struct {
		category string
		waiter
		at int64
	}
	var todo []pending
	names, late := slices.Sorted(maps.Keys(v.classes)), p.class != nil
	common := view{name: General}
	if !v.general.unlimited() {
		common = *v.view(General, *v.general, true)
	}
	views := map[*class][]*view{}
	for _, name := range names {
		c := v.classes[name]
		from := p.from
		if late && c != p.class {
			from++ // of one instant those of the first category come first
		}
		first, _ := slices.BinarySearch(c.slots, from)
		if c == p.class {
			first, late = p.rank, false
		}
		for k := first; k < len(c.slots); k++ {
			todo = append(todo, pending{name, c.queue[k], c.slots[k]})
		}
		c.slots, c.queue = c.slots[:first], c.queue[:first:first]
		views[c] = []*view{&common}
		if !c.policy.unlimited() {
			views[c] = []*view{v.view(name, *c.policy, false), &common}
		}
		for _, at := range c.slots {
			common.add(mark{at: at, waits: true})
		}
	}
	slices.SortStableFunc(todo, func(a, b pending) int { return cmp.Compare(a.at, b.at) })
	for i, t := range todo {
		c := v.classes[t.category]
		under := views[c]
		tell := func(at int64) {
			if t.id != v.r.ID {
				v.moved = append(v.moved, Booking{ID: t.id, Slot: micros(at)})
			}
		}
		exempt := c.policy != nil && c.policy.Exempt
		if p.class == nil && (exempt || c.policy.unlimited() && v.general.unlimited()) {
			tell(v.now)
			continue
		}
		from := min(t.at, v.now+v.lead)
		if i == 0 && p.class != nil {
			from = p.floor
		}
		newest := v.now
		if n := len(c.slots); n > 0 {
			newest = max(newest, c.slots[n-1])
		}
		at := place(under, max(newest, from), true)
		if t.at >= newest && max(at-t.at, t.at-at) <= slack && place(under, t.at, false) == t.at {
			at = t.at
		}
		if at <= v.now && t.at <= v.now { // which is due and expected
			at = t.at
		}
		if at < t.at {
			tell(at)
		}
		c.slots, c.queue = append(c.slots, at), append(c.queue, t.waiter)
		for _, s := range under {
			s.add(mark{at: at, waits: true})
		}
	}
	v.forget()
}
