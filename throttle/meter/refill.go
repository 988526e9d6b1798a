package meter

import (
	"context"
	"time"
)

// refill asks the meter for what is waited for or about to be used, now or when it may.
func (p *Pool) refill(now time.Time) {
	if p.all.ctx.Err() != nil {
		return
	}
	var next time.Time // when there is something to do
	for _, b := range p.batches {
		if b.from.After(now) {
			next = b.from
			break
		}
	}
	for i := range p.asks {
		if p.asking {
			break
		}
		ask := p.wants(i, now)
		if ask.Most == 0 && (p.failed == 0 || i == 0) { // else it looks whether there is an answer
			continue
		}
		if at := p.asks[i].next; at.After(now) {
			if next.IsZero() || at.Before(next) {
				next = at
			}
			continue
		}
		p.asking = true
		l := p.leased()
		p.life = l.spec.Life
		p.all.asks.Go(func() { p.ask(i, l, ask) })
	}
	p.wakeAt(next)
}

// wants is what is to be asked for in a turn: for the urgent ones what they wait for,
// else also what is about to be used, once there is little left of it.
func (p *Pool) wants(turn int, now time.Time) Ask {
	var ask Ask
	from, to := Urgent, Begun
	if turn > 0 {
		from, to = Begun, Ordinary+1
	}
	held, first := p.held(now), 0
	for _, b := range p.batches {
		if now.Before(b.from) {
			held += b.units
		}
	}
	for _, line := range p.waiting[from:to] {
		for _, w := range line {
			if ask.Most == 0 {
				first = w.units(p)
			}
			ask.Most += w.units(p)
		}
	}
	// A unit is asked for about half its life before it is used; not where there were too
	// few just now: one that lapses here is missed elsewhere.
	if turn > 0 && now.Sub(p.short) >= longestTurn {
		soon := p.used.over(now, p.life)
		if ask.Most == 0 && held > soon/4 {
			return ask
		}
		ask.Most += soon * 3 / 4
	}
	if ask.Most = max(0, ask.Most-held); ask.Most == 0 {
		return ask
	}
	l := p.leased()
	ask.Keep, ask.Ahead = turn*l.kept(), l.ahead()
	if ask.Least = max(1, first-held); ask.Least > 1 { // others would always be before one who needs many
		ask.Most, ask.Ahead = ask.Least, min(2*time.Duration(ask.Least)*l.each(), longestTurn)
	}
	return ask
}

// wakeAt has the pool refilled then; the zero time is never.
func (p *Pool) wakeAt(at time.Time) {
	if at.Equal(p.wakes) {
		return
	}
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	if p.wakes = at; at.IsZero() {
		return
	}
	p.timer = time.AfterFunc(time.Until(at), func() {
		p.all.mu.Lock()
		defer p.all.mu.Unlock()
		if p.wakes.Equal(at) {
			p.timer, p.wakes = nil, time.Time{}
			p.serve(at)
			p.refill(time.Now())
		}
	})
}

// ask asks the meter.
func (p *Pool) ask(turn int, l leased, ask Ask) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(p.all.ctx, askTimeout)
	answer, err := p.all.meter.Take(ctx, p.Key, l.spec, ask)
	cancel()
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	now := time.Now()
	p.asking, p.err = false, err
	if p.failed++; err == nil {
		p.failed = 0
	}
	covered, until := now.Add(answer.Left), began.Add(l.spec.Life)
	if ask.Least > 1 { // no more than a bucket holds, and so as if all were taken when the last is covered
		until = until.Add(answer.Left)
	}
	p.taken += int64(answer.Units)
	p.asks[turn] = after(now, l, ask, answer, p.failed)
	if err != nil {
		p.asks[1-turn].next = p.asks[turn].next
	}
	if turn > 0 && answer.Units < ask.Most {
		p.short = now
	}
	if answer.Units > 0 && covered.Before(until) {
		p.hold(batch{answer.Units, covered, until})
	}
	p.serve(now)
	p.refill(now)
}

// after is when the meter is asked again, and has units, after that answer, and so many
// that failed.
func after(now time.Time, l leased, ask Ask, answer Answer, failed int) (t turn) {
	// before half of what a bucket holds has filled up again
	pause := max(time.Millisecond, min(l.spec.Life/2, max(time.Duration(l.spec.AtOnce()/2)*l.each(), l.ahead()/2)))
	t.short = failed > 0 || answer.Units < ask.Most
	switch {
	case failed > 0:
		t.next = now.Add(min(pause<<min(failed, 10), longestTurn))
	case answer.Units == 0 && ask.Most > 0:
		t.free, t.rates = now.Add(answer.Left), l.text()
		t.next = now.Add(min(max(pause, answer.Left), longestTurn))
	case answer.Units < ask.Most:
		t.next = now.Add(pause)
	}
	return t
}
