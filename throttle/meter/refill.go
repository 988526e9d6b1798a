package meter

import (
	"slices"
	"time"
)

// recheck is the longest time between two requests while a caller waits, whether the meter denies
// or fails: an operator may have raised the limit, which must apply within a second.
const recheck = time.Second

// refill requests the units that waiters need or that will be used soon. If it is too early for a
// request, it sets the timer.
func (p *Pool) refill(now time.Time) {
	if p.all.ctx.Err() != nil {
		return
	}
	var next time.Time // time of the next action
	if i := slices.IndexFunc(p.batches, func(b batch) bool { return b.from.After(now) }); i >= 0 {
		next = p.batches[i].from
	}
	for i := range p.asks {
		if p.asking {
			break
		}
		ask := p.wants(i, now)
		if ask.Most == 0 && (p.failed == 0 || i == 0) { // a failing meter is only probed
			continue
		}
		if at := p.asks[i].next; at.After(now) {
			if next.IsZero() || at.Before(next) {
				next = at
			}
			continue
		}
		p.asking = true
		spec := p.spec()
		p.all.asks.Go(func() { p.ask(i, spec, ask) })
	}
	if !next.IsZero() {
		p.timer.Reset(next.Sub(now))
	}
}

// wake serves the waiters and refills, at the time for which refill has set the timer.
func (p *Pool) wake() {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	now := time.Now()
	p.serve(now)
	p.refill(now)
}

// wants returns the request of a turn: the units that its waiters need and, except for the urgent
// turn, the units that will be used soon.
func (p *Pool) wants(turn int, now time.Time) (ask Ask) {
	held, first := p.held(now), 0
	for _, b := range p.batches {
		if now.Before(b.from) {
			held += b.units
		}
	}
	queues := p.waiting[:Begun]
	if turn > 0 {
		queues = p.waiting[Begun:]
	}
	for _, queue := range queues {
		for _, w := range queue {
			if ask.Most == 0 {
				first = w.units
			}
			ask.Most += w.units
		}
	}
	if turn == 0 && ask.Most == 0 {
		return ask
	}
	spec := p.spec()
	// A request covers the use of three quarters of a life, once a quarter is left: so a unit
	// is about half a life old when it is used. After a shortage nothing is requested ahead:
	// a unit that expires here is missing elsewhere.
	if turn > 0 && now.Sub(p.scarce) >= recheck {
		soon := p.used.over(now, spec.Life)
		if ask.Most == 0 && held > soon/4 {
			return ask
		}
		ask.Most += soon * 3 / 4
	}
	if ask.Most = max(0, ask.Most-held); ask.Most == 0 {
		return ask
	}
	ask.Keep, ask.Ahead = turn*spec.reserve(), spec.ahead()
	if ask.Least = max(1, first-held); ask.Least > 1 { // otherwise waiters for one unit would always come first
		ask.Most, ask.Ahead = ask.Least, min(2*time.Duration(ask.Least)*spec.interval(), recheck)
	}
	return ask
}

// ask asks the meter.
func (p *Pool) ask(turn int, spec Spec, ask Ask) {
	began := time.Now()
	answer, err := p.all.meter.Take(p.all.ctx, p.Key, spec, ask)
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	now := time.Now()
	p.asking, p.err = false, err
	if p.failed++; err == nil {
		p.failed = 0
	}
	covered, until := now.Add(answer.Left), began.Add(spec.Life)
	if ask.Least > 1 { // a bucket allows the units as if all were taken when the last one is covered
		until = until.Add(answer.Left)
	}
	p.taken += int64(answer.Units)
	p.asks[turn] = after(now, spec, ask, answer, p.failed)
	if err != nil {
		p.asks[1-turn].next = p.asks[turn].next
	}
	if turn > 0 && answer.Units < ask.Most {
		p.scarce = now
	}
	if answer.Units > 0 && covered.Before(until) {
		p.hold(batch{answer.Units, covered, until})
	}
	p.serve(now)
	p.refill(now)
}

// after returns the turn after the answer, or after that many failed requests in a row.
func after(now time.Time, spec Spec, ask Ask, answer Answer, failed int) (t turn) {
	// A full bucket loses units, so the meter is asked when the bucket is half full, but at
	// least twice in a life. More than a thousand requests a second gain nothing.
	pause := max(time.Millisecond, min(spec.Life/2, max(time.Duration(spec.AtOnce()/2)*spec.interval(), spec.ahead()/2)))
	t.short = failed > 0 || answer.Units < ask.Most
	switch {
	case failed > 0:
		t.next = now.Add(min(pause<<min(failed, 10), recheck))
	case answer.Units == 0 && ask.Most > 0:
		t.free, t.rates = now.Add(answer.Left), spec.text()
		t.next = now.Add(min(max(pause, answer.Left), recheck))
	case answer.Units < ask.Most:
		t.next = now.Add(pause)
	}
	return t
}

// reserve returns the units of a burst that are reserved for urgent callers.
func (s Spec) reserve() int { return s.AtOnce() / reservedShare }

// interval returns the average time between two units.
func (s Spec) interval() (most time.Duration) {
	for _, r := range s.Rates {
		most = max(most, r.Period/time.Duration(r.Count))
	}
	return most
}

// ahead returns how far in advance units are leased: a quarter of the life from a bucket that holds
// fewer units than drain in that time, such as a leaky one. Then one request serves several
// callers, and they use their units a little later. A quarter leaves time to use the units.
func (s Spec) ahead() time.Duration {
	if s.isWindow() || time.Duration(s.AtOnce())*s.interval() >= s.Life/4 {
		return 0
	}
	return s.Life / 4
}

// text returns the rates in their configuration form.
func (s Spec) text() string {
	text := ""
	for i, r := range s.Rates {
		if i > 0 {
			text += ", "
		}
		text += r.String()
	}
	return text
}
