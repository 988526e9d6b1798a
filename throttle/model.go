package throttle

import (
	"cmp"
	"maps"
	"slices"
)

// A model is one user's timeline in memory, and the rules of waiting told plainly.
// booking.lua is the same on what Redis keeps, with the same names in the same order.
// A test compares the script with it.
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
	r     *Request
	now   int64
	keep  int64
	wait  int64
	lead  int64
	class *class // the request's; one of nobody, if nobody waits
	own   int64  // the notification's admission, taken out; or none
	held  int64  // the slot that it came with; or none
	moved []Booking
	lists lists // the request's
	told  bool  // … by the zone of those who wait, which is another
}

// visit begins a call's work. Nobody comes for slots older than the horizon.
func (u *model) visit(r *Request, now, keep int64) *visit {
	v := &visit{model: u, r: r, now: now, keep: keep, own: none, held: none,
		wait: r.Wait.Microseconds()}
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

// reschedule gives those that wait the earliest slots by the request's limits.
func (v *visit) reschedule() {
	v.adopt(false)
	v.replan(rework{})
	v.fill()
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
