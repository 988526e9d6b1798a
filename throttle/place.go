package throttle

import (
	"cmp"
	"slices"
	"sort"
)

// A view is a scope's limits, and the entries that they are held against.
type view struct {
	name   string
	policy Policy
	rules  []rule
	margin int64
	marks  []mark // in order
	closed list   // of a view that is quiet hours, which has nothing else
}

// A mark is an entry of a scope: of one that was sent, or of one that waits.
type mark struct {
	at    int64
	waits bool
	id    string // in a Timeline
}

// compare has those who wait come last at an instant.
func (m mark) compare(o mark) int {
	if c := cmp.Compare(m.at, o.at); c != 0 || m.waits == o.waits {
		return c
	}
	if m.waits {
		return 1
	}
	return -1
}

func (s *view) add(m mark) {
	i, _ := slices.BinarySearchFunc(s.marks, m, mark.compare)
	s.marks = slices.Insert(s.marks, i, m)
}

// upTo returns how many of the marks are at the instant or before it.
func (s *view) upTo(at int64) int {
	return sort.Search(len(s.marks), func(i int) bool { return s.marks[i].at > at })
}

// view is the scope's entries: those sent, and unless only the law is asked for,
// those who wait.
func (u *model) view(scope string, p Policy, law bool) *view {
	s := &view{name: scope, policy: p, rules: p.appendRules(nil), margin: p.margin()}
	for _, a := range u.sent[scope] {
		s.marks = append(s.marks, mark{at: a.at})
	}
	for name, c := range u.classes {
		for _, at := range c.slots {
			if !law && (scope == General || scope == name) {
				s.marks = append(s.marks, mark{at: at, waits: true})
			}
		}
	}
	slices.SortFunc(s.marks, mark.compare)
	return s
}

// clash returns until when the limits forbid what they forbid at the instant, 0
// when they allow it. Of the windows of n + 1 entries that would hold the new one,
// each must span the period, and a margin more where its first or last one waits, who
// may come a hair late.
func (s *view) clash(at, margin int64) int64 {
	if open := s.closed.opened(at); open > at {
		return open
	}
	before := s.upTo(at)
	for _, r := range s.rules {
		span := func(waits bool) int64 {
			if waits {
				return r.period + margin
			}
			return r.period
		}
		// so many of the window's others are later than the new one
		for later := min(r.n, len(s.marks)-before); later >= max(0, r.n-before); later-- {
			others := s.marks[before+later-r.n : before+later]
			first, last := mark{at: at}, mark{at: at}
			if later < r.n {
				first = others[0]
			}
			if later > 0 {
				last = others[r.n-1]
			}
			if last.at-first.at < span(first.waits || last.waits) {
				return others[0].at + span(others[0].waits)
			}
		}
	}
	return 0
}

// place returns the first instant from that one on at which all views have a place.
func place(views []*view, from int64, margins bool) int64 {
	for at := from; ; from = at {
		for _, s := range views {
			margin := int64(0)
			if margins {
				margin = s.margin
			}
			for over := s.clash(at, margin); over > 0; over = s.clash(at, margin) {
				at = over
			}
		}
		if at == from {
			return at
		}
	}
}

// binding returns the view, and of its policy's rules the one, that let an entry at
// the instant be no earlier than it is, and the entry that the rule counts from; nil and
// "" when none does. An instant behind those that were let through counts those of them
// as well that are later.
func binding(views []*view, at int64) (scope *view, rule string, after Entry) {
	var latest int64
	for _, s := range views {
		before := s.upTo(at - 1)
		var sent []mark // where some of them are later
		if slices.ContainsFunc(s.marks[before:], func(m mark) bool { return !m.waits }) {
			sent = slices.DeleteFunc(slices.Clone(s.marks), func(m mark) bool { return m.waits })
		}
		for i, r := range s.rules {
			m, counts := nthNewest(s.marks[:before], r.n)
			if one, ok := nthNewest(sent, r.n); ok && one.at == at-r.period {
				m, counts = one, true
			}
			if free := m.at + r.period; counts && r.period > 0 && free >= latest {
				latest, scope, rule, after = free, s, s.policy.ruleName(i), Entry{m.id, micros(m.at)}
			}
		}
	}
	return scope, rule, after
}

// nthNewest returns the n-th newest of the marks, and whether there are so many.
func nthNewest(marks []mark, n int) (m mark, ok bool) {
	if n > len(marks) {
		return mark{}, false
	}
	return marks[len(marks)-n], true
}
