package throttle

import (
	"cmp"
	"maps"
	"slices"
)

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
	common := v.common(true)
	views, behind := map[*class][]*view{}, map[*class][]waiter{}
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
		behind[c] = slices.Clone(c.queue[len(c.slots):])
		c.slots, c.queue = c.slots[:first], c.queue[:first:first]
		views[c] = v.under(name, common)
		for _, at := range c.slots {
			common.add(mark{at: at, waits: true})
		}
	}
	slices.SortStableFunc(todo, func(a, b pending) int { return cmp.Compare(a.at, b.at) })
	for i, t := range todo {
		c := v.classes[t.category]
		under := views[c]
		exempt := c.policy != nil && c.policy.Exempt
		free := c.policy.unlimited() && v.general.unlimited() && len(v.listsOf(c).holds()) == 0
		if p.class == nil && (exempt || free) {
			v.tell(t.id, v.now)
			continue
		}
		from := min(t.at, v.now+v.lead)
		if i == 0 && p.class != nil {
			from = p.floor
		}
		newest := v.now
		if n := len(c.slots); n > 0 {
			newest = max(newest, c.slots[n-1]+1)
		}
		at := place(under, max(newest, from), true)
		if t.at >= newest && max(at-t.at, t.at-at) <= slack && place(under, t.at, false) == t.at {
			at = t.at
		}
		if at <= v.now && t.at <= v.now { // which is due and expected
			at = t.at
		}
		if at < t.at {
			v.tell(t.id, at)
		}
		c.slots, c.queue = append(c.slots, at), append(c.queue, t.waiter)
		for _, s := range under {
			s.add(mark{at: at, waits: true})
		}
	}
	for c, queue := range behind {
		c.queue = append(c.queue, queue...)
	}
	v.forget()
}

// common is the view of the general limits by which slots are given.
func (v *visit) common(law bool) *view {
	if v.general.unlimited() {
		return &view{name: General}
	}
	return v.view(General, *v.general, law)
}

// under are the views that slots of the category are given by.
func (v *visit) under(category string, common *view) []*view {
	c := v.classes[category]
	under := []*view{common}
	if !c.policy.unlimited() {
		under = []*view{v.view(category, *c.policy, false), common}
	}
	return append(under, v.listsOf(c).night()...)
}

// fill gives slots, while there is room, to those that wait without one, the earliest
// accepted first.
func (v *visit) fill() {
	for v.booked() < v.r.mostBooked() {
		category, next := "", (*waiter)(nil)
		for _, name := range slices.Sorted(maps.Keys(v.classes)) {
			c := v.classes[name]
			if k := len(c.slots); k < len(c.queue) && (next == nil || c.queue[k].compare(*next) < 0) {
				category, next = name, &c.queue[k]
			}
		}
		if next == nil || next.id == v.r.ID { // which is decided of by itself
			return
		}
		c, earliest := v.classes[category], v.now+v.lead
		if n := len(c.slots); n > 0 {
			earliest = max(earliest, c.slots[n-1]+1)
		}
		at := place(v.under(category, v.common(false)), earliest, true)
		c.slots = append(c.slots, at)
		v.tell(next.id, at)
	}
}

// tell notes that another one comes forward.
func (v *visit) tell(id string, at int64) {
	if id != v.r.ID {
		v.moved = append(v.moved, Booking{ID: id, Slot: micros(at)})
	}
}
