package meter

import (
	"slices"
	"time"
)

// recheck is the longest time between two requests while somebody waits, whether the meter denies,
// fails or does not answer: the limit may have been raised meanwhile, and an operator expects a
// change within a second.
const recheck = time.Second

// refill requests the units that are waited for or will be used soon, now or when the meter
// may be asked.
func (p *Pool) refill(now time.Time) {
	if p.all.ctx.Err() != nil {
		return
	}
	var next time.Time // when there is something to do
	if i := slices.IndexFunc(p.batches, func(b batch) bool { return b.from.After(now) }); i >= 0 {
		next = p.batches[i].from
	}
	for i := range p.asks {
		if p.asking {
			break
		}
		ask := p.wants(i, now)
		if ask.Most == 0 && (p.failed == 0 || i == 0) { // of a meter that fails it only asks for an answer
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

// wake serves the waiters and asks again, at the instant for which refill has set the timer.
func (p *Pool) wake() {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	now := time.Now()
	p.serve(now)
	p.refill(now)
}

// wants is the request of a turn: the units that its waiters lack and, but for urgent ones,
// those that will be used soon.
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
	ask.Keep, ask.Ahead = turn*spec.kept(), spec.ahead()
	if ask.Least = max(1, first-held); ask.Least > 1 { // else those who need one each would always come first
		ask.Most, ask.Ahead = ask.Least, min(2*time.Duration(ask.Least)*spec.each(), recheck)
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
	if ask.Least > 1 { // as if all were taken when the last of them is covered, which a bucket holds
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

// after returns when the meter is asked again after that answer, or after so many failures.
func after(now time.Time, spec Spec, ask Ask, answer Answer, failed int) (t turn) {
	// A bucket that fills up meanwhile would lose units, so it is asked when it is half
	// full; a larger one twice in a life. More than a thousand requests a second gain nothing.
	pause := max(time.Millisecond, min(spec.Life/2, max(time.Duration(spec.AtOnce()/2)*spec.each(), spec.ahead()/2)))
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

// kept is how many units of a burst only urgent ones get.
func (s Spec) kept() int { return s.AtOnce() / keptShare }

// each is the time from one unit to the next, in the long run.
func (s Spec) each() (most time.Duration) {
	for _, r := range s.Rates {
		most = max(most, r.Period/time.Duration(r.Count))
	}
	return most
}

// ahead is how far ahead units are leased of a bucket that holds less than drains in that
// time, as a leaky one does. So one request serves several, who use their units a little
// later than they might. A quarter of the life that begins with the request leaves time to
// use them.
func (s Spec) ahead() time.Duration {
	if s.windowed() || time.Duration(s.AtOnce())*s.each() >= s.Life/4 {
		return 0
	}
	return s.Life / 4
}

// text is the rates as the configuration writes them.
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
