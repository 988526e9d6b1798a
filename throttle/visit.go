package throttle

import (
	"math"
	"slices"
)

// A visit is one call's work on a user's lines in memory: line.lua in Go, name
// by name, so that both give the same decisions. The reasons stand there.
type visit struct {
	now, wait, horizon, keep int64 // µs
	id                       string
	all, cat                 *limited // nil where the request has no such scope
	// reserved are the places that those in the categories' lines have among the
	// general limits.
	reserved *set

	most    int              // how many may wait, 0 for any number
	back    bool             // it comes back
	reach   int              // how many then
	partial bool             // only the first of a line move, and none back
	class   string           // its category
	beyond  map[string]entry // the last instant of those without a slot, by category

	sent, booked, lined entry // what the notification holds
	held                entry // the slot it comes for
	lead                int64 // how long it takes to wake who comes forward
	moved               []shifted
}

// shifted is a booking that has come forward.
type shifted struct {
	id    string
	slot  entry
	which int
}

// verdict is what a visit answers. The rule counts from 1, 0 is none.
type verdict struct {
	status      Status
	at          int64
	which, rule int
	inLine      bool // where it waits: its category's line, or booked
	late        bool // at is later than the slot: its line has to follow
	full        bool // deferred without a slot
}

// first answers the earliest instant for a line whose predecessors are in ahead.
func (v *visit) first(ahead []*set) int64 {
	at := v.now
	for _, set := range ahead {
		at = max(at, set.newest(0))
	}
	return at
}

// shift gives the entries of the scope's line the earliest slots, in the order
// they have.
func (v *visit) shift(s *limited) {
	if s == nil {
		return
	}
	line, ahead := s.lineAndAhead()
	line.trim(v.now - v.keep)
	if s.which == 1 && v.cat != nil {
		v.cat.booked.trim(v.now - v.keep)
	}
	among := s.which == 1 && v.reserved.len() > 0
	entries := slices.Clone(line.list)
	if v.partial {
		entries = entries[:min(len(entries), v.reach)]
	}
	places := make([]bool, len(entries))
	switch {
	case among:
		for _, e := range entries {
			line.drop(e.name)
		}
	case s.which == 2:
		for i, e := range entries {
			places[i] = v.reserved.score(e.name) != none
			v.reserved.drop(e.name)
		}
	}
	slots := make([]int64, 0, len(entries))
	for k, e := range entries {
		slot := v.first(ahead)
		if k > 0 {
			slot = max(v.now, slots[k-1]+s.margin)
		}
		for _, r := range s.rules {
			if r.n <= k {
				slot = max(slot, slots[k-r.n]+r.period+s.margin)
			} else {
				slot = max(slot, after(ahead, r.n-k, r.period, s.margin))
			}
		}
		if e.name != v.id {
			slot = max(slot, min(e.at, v.now+v.lead))
		}
		if among || v.all != nil && places[k] {
			slot, _ = v.agree(slot)
		}
		if v.partial {
			slot = min(slot, e.at)
		}
		if among {
			line.put(e.name, e.at)
		}
		if slot <= v.now && e.at <= v.now {
			slot = e.at
		}
		slots = append(slots, slot)
		if places[k] {
			v.reserved.put(e.name, slot)
		}
		if slot == e.at {
			continue
		}
		line.put(e.name, slot)
		if slot < e.at-slack && e.name != v.id {
			v.moved = append(v.moved, shifted{e.name, slot, s.which})
		}
	}
	if s.which == 1 {
		v.mirror()
	}
}

// mirror gives the category's part of booked the slots that its entries have there.
func (v *visit) mirror() {
	if v.all == nil || v.cat == nil || v.cat.booked.len() == 0 {
		return
	}
	first, last := v.cat.booked.list[0], v.cat.booked.list[v.cat.booked.len()-1]
	if v.all.booked.score(first.name) == first.at && v.all.booked.score(last.name) == last.at {
		return
	}
	for _, e := range slices.Clone(v.cat.booked.list) {
		v.cat.booked.drop(e.name)
		if slot := v.all.booked.score(e.name); slot != none {
			v.cat.booked.put(e.name, slot)
		}
	}
}

// pull shifts a line whose head has a later slot than it needs.
func (v *visit) pull(s *limited) {
	if s == nil {
		return
	}
	line, ahead := s.lineAndAhead()
	if line.len() == 0 || line.list[0].at <= v.now+v.lead+slack {
		return
	}
	at, _ := s.behind(ahead, v.first(ahead), s.margin, 0)
	if line.list[0].at <= at+slack {
		return
	}
	if v.all == nil && v.reserved.len() > 0 {
		return
	}
	if v.all != nil {
		// one look, which is cheap: what is not free at once is found by a shift
		if _, rule := v.all.clash([]*set{v.all.sent, v.reserved}, at, v.all.margin); rule >= 0 {
			return
		}
		if s.which == 2 {
			if _, rule := v.all.clash([]*set{v.all.booked}, at, v.all.margin); rule >= 0 {
				return
			}
		}
	}
	v.shift(s)
}

// takeOut notes what the notification holds, and takes it out so that no count
// holds it. Before that it pulls the lines forward, if wanted.
func (v *visit) takeOut(pull bool) {
	v.reserved.trim(v.now - v.keep)
	v.mirror()
	v.sent, v.booked, v.lined = none, none, none
	if v.all != nil {
		v.sent = v.all.sent.score(v.id)
	}
	if v.cat != nil && v.sent == none {
		v.sent = v.cat.sent.score(v.id)
	}
	v.each(func(s *limited) { s.sent.drop(v.id) })
	if pull {
		v.pull(v.all)
		v.pull(v.cat)
	}
	if v.all != nil {
		v.booked = v.all.booked.score(v.id)
	}
	if v.cat != nil {
		v.lined = v.cat.line.score(v.id)
	}
	v.unline()
	if v.booked <= v.now-v.keep {
		v.booked = none
	}
	if v.lined <= v.now-v.keep {
		v.lined = none
	}
	if v.held = v.booked; v.held == none {
		v.held = v.lined
	}
	if v.sent != none {
		v.wait = 0
	}
}

func (v *visit) each(f func(*limited)) {
	if v.all != nil {
		f(v.all)
	}
	if v.cat != nil {
		f(v.cat)
	}
}

func (v *visit) unline() {
	v.each(func(s *limited) {
		if v.booked != none {
			s.booked.drop(v.id)
		}
		s.line.drop(v.id)
	})
	v.reserved.drop(v.id)
}

// agree answers the first instant from that one on at which the general limits
// have a place, and the rule that sets it.
func (v *visit) agree(from int64) (at int64, rule int) {
	return v.all.fit([]*set{v.all.sent, v.all.booked, v.reserved}, from, v.all.margin)
}

func (v *visit) send(at int64) {
	v.each(func(s *limited) { s.sent.put(v.id, at) })
}

func (v *visit) waitIn(inLine bool, slot int64) {
	if inLine {
		v.cat.line.put(v.id, slot)
		if v.all != nil {
			v.reserved.put(v.id, slot)
		}
		return
	}
	v.each(func(s *limited) { s.booked.put(v.id, slot) })
}

func (v *visit) slotOf(inLine bool) int64 {
	if inLine {
		return v.cat.line.score(v.id)
	}
	return v.all.booked.score(v.id)
}

// decide answers what becomes of the notification, and changes nothing.
func (v *visit) decide() verdict {
	slot := v.booked
	inBooked, inLine := v.booked != none, false
	if !inBooked && v.lined != none {
		slot, inLine = v.lined, true
	}
	placed := inBooked || inLine
	if !placed {
		slot = v.sent
	}
	if placed && slot > v.now+v.wait {
		return v.early(slot, inLine)
	}

	var a, c, at int64
	var arule, crule, which, rule int
	ask := func(from int64, margin bool) {
		general := func(from int64) (int64, int) {
			switch {
			case slot == none:
				at, rule := v.all.behind([]*set{v.all.sent, v.all.booked}, from, v.all.marginIf(margin), 0)
				if at > v.now && v.reserved.len() > 0 {
					if free, r := v.all.fit([]*set{v.all.sent, v.all.booked, v.reserved}, at, v.all.marginIf(margin)); free > at {
						return free, r
					}
				}
				return at, rule
			case inLine:
				return v.all.fit([]*set{v.all.sent, v.all.booked, v.reserved}, from, v.all.marginIf(margin))
			}
			return v.all.fit([]*set{v.all.sent}, from, 0)
		}
		category := func(from int64) (int64, int) {
			if slot != none {
				return v.cat.fit([]*set{v.cat.sent}, from, 0)
			}
			return v.cat.behind([]*set{v.cat.sent, v.cat.booked, v.cat.line}, from, v.cat.marginIf(margin), 0)
		}
		a, arule, c, crule = from, 0, from, 0
		if v.all != nil {
			a, arule = general(from)
		}
		if v.cat != nil {
			c, crule = category(from)
		}
		at, which, rule = a, 1, arule
		if v.all == nil || c > a {
			at, which, rule = c, 2, crule
		}
		if v.all == nil || v.cat == nil || slot == none {
			return
		}
		for before := int64(math.MinInt64); at != before; {
			before = at
			if free, r := general(before); free > at {
				at, which, rule = free, 1, r
			}
			if free, r := category(at); free > at {
				at, which, rule = free, 2, r
			}
		}
	}

	from := max(v.now, slot, v.sent)
	ask(from, false)
	if slot != none && !placed && at != from {
		slot = none
		ask(from, false)
	}
	if at > v.now && at != v.sent && !inBooked {
		ask(from, true)
	}
	granted := func(at int64) bool { return at <= v.now+v.wait }
	if granted(at) || at == v.sent {
		return verdict{status: Granted, at: at, which: which, rule: rule}
	}

	switch later, full := v.room(placed); {
	case full && later > v.now+v.horizon:
		return verdict{status: Refused, at: later, which: which, rule: rule}
	case full:
		return verdict{status: Deferred, at: later, which: which, rule: rule, full: true}
	case !placed:
		inLine = v.all == nil || v.cat != nil && (c > a || c > v.now && v.cat.line.len() > 0)
	case inBooked && v.cat != nil && granted(a) && !granted(c-brief):
		inLine = true
		c, crule = v.cat.behind([]*set{v.cat.sent, v.cat.line}, c, v.cat.margin, 0)
	case inLine && v.all != nil && granted(c) && !granted(a):
		inLine = false
	default:
		return verdict{status: Deferred, at: at, which: which, rule: rule, inLine: inLine, late: true}
	}
	d := verdict{status: Deferred, at: a, which: 1, rule: arule, inLine: inLine}
	if inLine {
		d.at, d.which, d.rule = c, 2, crule
		if v.all != nil && !inBooked { // who leaves the general line takes others along first
			if free, r := v.agree(max(a, c)); free > c {
				d.at, d.which, d.rule = free, 1, max(r, arule)
			}
		}
	}
	if d.at > v.now+v.horizon {
		d.status = Refused
	}
	return d
}

// room reports whether there is none for one more who waits, and when a newcomer
// is to come back then. Whoever has a place keeps it.
func (v *visit) room(placed bool) (at int64, full bool) {
	if v.most == 0 || placed {
		return 0, false
	}
	last := v.beyond[v.class]
	waiting, room := v.reserved.len(), 2*v.most
	if v.all != nil {
		waiting += v.all.booked.len()
	} else {
		waiting += v.cat.line.len()
	}
	if last > v.now && !v.back {
		room = v.most
	}
	if 2*waiting < room {
		return 0, false
	}
	at = max(v.now, last)
	var distance int64
	v.each(func(s *limited) {
		line, _ := s.lineAndAhead()
		at = max(at, line.newest(0))
		for _, r := range s.rules {
			distance = max(distance, (r.period+int64(r.n)-1)/int64(r.n)+s.margin)
		}
	})
	return at + distance, true
}

// early answers a job that comes before its slot.
func (v *visit) early(slot int64, inLine bool) verdict {
	s, sets := v.all, []*set(nil)
	if inLine {
		s = v.cat
		sets = []*set{s.sent, s.booked, s.line}
	} else {
		sets = []*set{s.sent, s.booked}
	}
	later := 0
	for _, set := range sets {
		later += set.since(slot)
	}
	_, rule := s.behind(sets, 0, 0, later)
	return verdict{status: Deferred, at: slot, which: s.which, rule: rule, inLine: inLine}
}

// acquire decides and enters the notification where the decision leaves it.
func (v *visit) acquire() verdict {
	v.lead = min(v.wait, waking)
	v.takeOut(true)
	d := v.decide()
	if d.status == Granted {
		stamp := d.at
		if stamp == v.sent {
			stamp++
		}
		d.at = stamp
		v.send(stamp)
		v.each(func(s *limited) { s.sent.trim(v.now - v.keep) })
	} else if v.sent != none {
		v.send(v.sent)
	}
	if d.full {
		v.beyond[v.class] = d.at
		return d
	}
	if d.status == Deferred {
		v.join(d)
	}
	if d.status == Deferred {
		if d.late && v.slotOf(d.inLine) < d.at {
			v.waitIn(d.inLine, d.at)
		}
		d.at = v.slotOf(d.inLine)
		if d.at > v.now+v.horizon {
			d.status, v.booked = Refused, none
			if !d.inLine {
				v.booked = d.at
			}
			v.unline()
		}
	}
	return d
}

// join enters a job in its line. A late one goes back to its place, and its
// whole line moves in order.
func (v *visit) join(d verdict) {
	if !d.late {
		v.waitIn(d.inLine, d.at)
		if d.inLine && v.booked != none {
			v.follow()
			v.shift(v.cat)
		}
		return
	}
	if d.inLine {
		v.waitIn(true, v.lined)
		v.shift(v.cat)
	} else {
		v.waitIn(false, v.booked)
		v.shift(v.all)
	}
}

// follow moves those of the category who are booked behind one that has just
// gone to the line, as far as the category's limits have them follow it.
func (v *visit) follow() {
	for _, e := range slices.Clone(v.cat.booked.list) {
		if e.at < v.booked {
			continue
		}
		slot, _ := v.cat.behind([]*set{v.cat.sent, v.cat.line}, e.at, v.cat.margin, 0)
		if slot <= e.at+brief {
			return
		}
		v.all.booked.drop(e.name)
		v.cat.booked.drop(e.name)
		v.cat.line.put(e.name, slot)
		v.reserved.put(e.name, slot)
	}
}

// cancel takes the notification out and has those behind it move up.
func (v *visit) cancel() {
	v.takeOut(false)
	v.moveUp()
}

// leave is cancel, but that an admission stays.
func (v *visit) leave() {
	v.takeOut(false)
	if v.sent != none {
		v.send(v.sent)
		v.sent = none
	}
	v.moveUp()
}

// moveUp moves those up who wait behind what the notification held.
func (v *visit) moveUp() {
	v.partial = true
	if v.booked != none && v.all.booked.since(v.booked) > 0 || v.sent != none {
		v.shift(v.all)
	}
	if v.cat != nil && (v.cat.line.since(max(v.booked, v.lined)) > 0 && v.held != none || v.sent != none) {
		v.shift(v.cat)
	}
}

// reschedule gives those who wait the earliest slots, in one go: the script takes
// two calls, so that others are served in between.
func (v *visit) reschedule() {
	v.lead = min(v.wait, waking)
	v.takeOut(false)
	v.lift()
	v.shift(v.all)
	v.shift(v.cat)
}

// peek decides and puts everything back.
func (v *visit) peek() verdict {
	v.takeOut(false)
	d := v.decide()
	if d.status == Deferred && d.at > v.now+v.horizon {
		d.status = Refused
	}
	if v.sent != none {
		v.send(v.sent)
	}
	if v.booked != none {
		v.waitIn(false, v.booked)
	}
	if v.lined != none {
		v.waitIn(true, v.lined)
	}
	return d
}
