package throttle

// limited is a scope's rules with the sets they are counted on. The general
// scope has no line.
type limited struct {
	which              int // 1 general, 2 the category's
	rules              []rule
	margin             int64
	free, exempt       bool // without limits; outside the general ones too
	sent, booked, line *set
}

func (s *limited) marginIf(yes bool) int64 {
	if yes {
		return s.margin
	}
	return 0
}

// lineAndAhead answers the line of the scope, and who goes before it.
func (s *limited) lineAndAhead() (line *set, ahead []*set) {
	if s.which == 1 {
		return s.booked, []*set{s.sent}
	}
	return s.line, []*set{s.sent, s.booked}
}

// after answers when the rule allows an admission after the n-th newest entry
// of the sets, or none.
func after(sets []*set, n int, period, margin int64) entry {
	if period+margin == 0 {
		return none
	}
	at, which := newestOf(sets, n)
	switch {
	case at == none, period == 0 && which == 0:
		return none
	case which > 0:
		return at + period + margin
	}
	return at + period
}

// behind answers the first instant from that one on at which the rules allow
// an admission after the sets' entries, save the newest skip of them.
func (s *limited) behind(sets []*set, from, margin int64, skip int) (at int64, rule int) {
	at = from
	for i, r := range s.rules {
		if free := after(sets, r.n+skip, r.period, margin); free > at {
			at, rule = free, i+1
		}
	}
	return at, rule
}

// fit answers the first instant from that one on at which the rules allow an
// admission among the sets' entries.
func (s *limited) fit(sets []*set, from, margin int64) (at int64, rule int) {
	at = from
	for range fitSteps {
		next, i := s.clash(sets, at, margin)
		if i < 0 {
			break
		}
		at, rule = next, i+1
	}
	return at, rule
}

// clash answers the first rule that forbids an admission at the instant, or
// -1, and when the window that does is over.
func (s *limited) clash(sets []*set, at, margin int64) (next int64, rule int) {
	later := 0
	for _, set := range sets {
		later += set.since(at + 1)
	}
	for i, r := range s.rules {
		if r.period+margin == 0 {
			continue
		}
		near := later // those that are later by less than the period
		for _, set := range sets {
			near -= set.since(at + r.period + margin)
		}
		for j := 0; j <= min(near, r.n); j++ {
			last, first, waits := at, at, 0
			if j > 0 {
				last, waits = newestOf(sets, later-j+1)
			}
			if j < r.n {
				at, which := newestOf(sets, later+r.n-j)
				first, waits = at, max(waits, which)
			}
			period := r.period
			if waits > 0 {
				period += margin
			}
			if first == none || last-first >= period {
				continue
			}
			if j == r.n {
				first, _ = newestOf(sets, later)
			}
			return first + period, i
		}
	}
	return at, -1
}
