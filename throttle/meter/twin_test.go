package meter

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/pushpace/pushpace/throttle"
)

// Memory is the Meter of one process. A key that says nothing any more is forgotten.
type Memory struct {
	now func() time.Time

	mu   sync.Mutex
	keys *simplelru.LRU[memoryKey, *memoryState] // by when they were asked for, however many
}

type memoryKey struct {
	name     string
	windowed bool
}

type memoryState struct {
	bucket bucket
	cells  []cells
	lapses int64 // when it says nothing any more, in µs
}

// lapsed reports whether the state says nothing any more, in whole ms as on Redis.
func (s *memoryState) lapsed(now int64) bool { return s.lapses <= now/1000*1000 }

// NewMemory returns a meter that has counted nothing, with a clock, nil for time.Now.
func NewMemory(now func() time.Time) *Memory {
	if now == nil {
		now = time.Now
	}
	keys, _ := simplelru.NewLRU[memoryKey, *memoryState](math.MaxInt, nil) // which fails for sizes below 1
	return &Memory{now: now, keys: keys}
}

// Len returns of how many keys anything is known.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(m.now().UnixMicro(), m.keys.Len())
	return m.keys.Len()
}

// Take implements Meter.
func (m *Memory) Take(ctx context.Context, key string, s Spec, a Ask) (answer Answer, err error) {
	if err := ctx.Err(); err != nil {
		return answer, err
	}
	if err := s.check(key, a); err != nil || s.lapse(a) {
		return answer, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now().UnixMicro()
	m.forget(now, 2)
	state := m.state(memoryKey{key, s.windowed()})
	if state.lapsed(now) {
		*state = memoryState{}
	}
	next, changed := *state, false
	if s.windowed() {
		next.cells, answer, changed = takeCells(s.cells(), state.cells, now, a)
		next.lapses = lapseCells(next.cells)
	} else {
		terms := s.bucket()
		next.bucket, answer, changed = terms.take(state.bucket, now, a)
		next.lapses = next.bucket.lapses(terms)
	}
	if changed {
		*state = next
	}
	return answer, nil
}

// state returns the state of the key.
func (m *Memory) state(key memoryKey) *memoryState {
	state, known := m.keys.Get(key)
	if !known {
		state = new(memoryState)
		m.keys.Add(key, state)
	}
	return state
}

// forget looks at the keys that were asked for longest ago, at most that many, and drops
// those that say nothing any more. With two looked at on each call there are never many
// more than count.
func (m *Memory) forget(now int64, keys int) {
	for range min(keys, m.keys.Len()) {
		key, state, _ := m.keys.GetOldest()
		if state.lapsed(now) {
			m.keys.Remove(key)
		} else {
			m.keys.Get(key) // it is looked at last from now on
		}
	}
}

// seen returns the bucket as it is at that instant, and by these terms. It reports whether
// that is to be kept even if nothing is taken: where it was counted by other terms, or
// by a clock that was set back since, which goes on from there.
func (b bucket) seen(t bucketTerms, now int64) (bucket, bool) {
	if b.burst == 0 {
		return bucket{at: now, drain: t.drain, burst: t.covered()}, false
	}
	elapsed := now - b.at
	if elapsed > 0 {
		busy := min(elapsed, b.drained())
		b.debt = max(0, b.debt-busy*b.drain)
		b.warm = max(0, min(t.ramp, b.warm+busy)-(elapsed-busy))
	}
	b.at = now
	changed := b.burst != t.covered() || b.drain != t.drain
	if changed {
		// As large a part of the burst is used as before: who changes a limit gains nothing
		// and owes no more, and neither do those who disagree about it for a while.
		b.debt = min(t.full(), int64(math.Ceil(float64(b.debt)/float64(b.burst)*float64(t.covered()))))
		b.burst, b.drain = t.covered(), t.drain
	}
	b.warm = min(b.warm, t.ramp)
	return b, changed || elapsed < 0
}

// drained is after how many µs nothing is owed.
func (b bucket) drained() int64 { return (b.debt + b.drain - 1) / b.drain }

// take takes units as asked for. It returns what the bucket is then, and whether that is
// to be kept: what is denied leaves no trace.
func (t bucketTerms) take(b bucket, now int64, a Ask) (bucket, Answer, bool) {
	b, changed := b.seen(t, now)
	if apart := now - b.slowed; a.Slow && t.ramp > 0 && max(apart, -apart) >= slowedFor {
		b.warm, b.slowed, changed = b.warm/2, now, true
	}
	if a.Most < 0 {
		b.debt = max(0, b.debt+int64(a.Most)*t.unit)
		return b, Answer{}, true
	}
	price := t.unit
	if t.ramp > 0 {
		price = int64(math.Ceil(float64(t.unit) / max(1.0/coldest, float64(b.warm)/float64(t.ramp))))
	}
	limit, least := t.limit(a), max(1, int64(a.Least))
	// A cold bucket that owes nothing gives as many as a warm one, at its own price.
	if over := b.debt + min(least*price, limit) - limit; over > 0 {
		return b, Answer{Left: t.after(over), Rule: t.rate.String()}, changed
	}
	if a.Most == 0 {
		return b, Answer{}, changed
	}
	units := max(least, min(int64(a.Most), (limit-b.debt)/price))
	uncovered := min(b.debt+units*price, limit) - t.covered()
	b.debt += units * price
	return b, Answer{Units: int(units), Left: t.after(uncovered)}, true
}

// after is how long so much takes to drain.
func (t bucketTerms) after(parts int64) time.Duration {
	return time.Duration((max(0, parts)+t.drain-1)/t.drain) * time.Microsecond
}

// lapses is the instant from which on the bucket says no more than none.
func (b bucket) lapses(t bucketTerms) int64 {
	busy := b.drained()
	return max(b.at+busy+min(t.ramp, b.warm+busy), b.slowed+slowedFor)
}

// seen returns the rate's cells as they are at that instant, of those that are known.
// Where another length was counted by, or the clock was set back, each count goes to the
// last cell that it can be of, and that is to be kept even if nothing is taken.
func (t cellTerms) seen(known []cells, now int64) (c cells, changed bool) {
	c = cells{length: t.length, newest: now / t.length, counts: make([]int, t.span)}
	var from cells // of the same length, else of the greatest
	for _, k := range known {
		if from.length != t.length && (k.length == t.length || k.length > from.length) {
			from = k
		}
	}
	for i, n := range from.counts {
		last := min(now, (from.newest-int64(i)+1)*from.length-1)
		if age := c.newest - last/t.length; age < int64(t.span) {
			c.counts[age] += n
		}
	}
	return c, from.counts != nil && (from.length != t.length || from.newest > c.newest)
}

func (c cells) sum() int {
	sum := 0
	for _, n := range c.counts {
		sum += n
	}
	return sum
}

// gives is the instant at which the cells have given back so many units by passing.
func (c cells) gives(units int) int64 {
	age := len(c.counts) - 1
	for units -= c.counts[age]; units > 0; units -= c.counts[age] {
		age--
	}
	return (c.newest - int64(age) + int64(len(c.counts))) * c.length
}

// back takes units out again, the last ones first.
func (c cells) back(units int) {
	for age := range c.counts {
		n := min(units, c.counts[age])
		c.counts[age] -= n
		units -= n
	}
}

// takeCells takes units as asked for of all rates. It returns what their cells are then,
// and whether that is to be kept: what is denied leaves no trace.
func takeCells(terms []cellTerms, known []cells, now int64, a Ask) (all []cells, answer Answer, changed bool) {
	least := max(1, a.Least)
	units, free, binds := a.Most, now, throttle.Rate{}
	for _, t := range terms {
		c, stale := t.seen(known, now)
		all, changed = append(all, c), changed || stale
		room := t.count - a.Keep - c.sum()
		units = min(units, room)
		if room < least {
			if at := c.gives(least - room); at > free {
				free, binds = at, t.rate
			}
		}
	}
	switch {
	case a.Most < 0:
		for _, c := range all {
			c.back(-a.Most)
		}
		changed = true
	case free > now:
		answer = Answer{Left: time.Duration(free-now) * time.Microsecond, Rule: binds.String()}
	case units > 0:
		for _, c := range all {
			c.counts[0] += units
		}
		answer, changed = Answer{Units: units}, true
	}
	return all, answer, changed
}

// lapseCells is the instant from which on the cells say no more than none.
func lapseCells(all []cells) int64 {
	at := int64(0)
	for _, c := range all {
		for age, n := range c.counts {
			if n > 0 {
				at = max(at, (c.newest-int64(age)+int64(len(c.counts)))*c.length)
				break
			}
		}
	}
	return at
}

// A part is what a holder has of a number, until an instant in µs.
type part struct{ number, held, wants, until int64 }

// parts are those of a number, by holder: the model that share.lua follows.
type parts map[string]part

// renew takes in a claim. It returns -1 for one that comes after a later one.
func (p parts) renew(now int64, c Claim) int64 {
	limit, holds := int64(c.Limit), int64(c.Holds)
	for holder, of := range p {
		if of.until <= now {
			delete(p, holder)
		}
	}
	own, known := p[c.Holder]
	if known && own.number >= c.Number {
		return -1
	}
	own.number, own.wants, own.until = c.Number, int64(c.Wants), now+c.Life.Microseconds()
	p[c.Holder] = part{wants: own.wants}
	room := limit
	for _, of := range p {
		room -= of.held
	}
	room = max(room, 0)
	granted := min(p.fair(limit, c.Holder), room)
	if known {
		holds = min(holds, own.held)
	} else if holds > 0 { // it is forgotten, and so may others be who have not come since
		holds = min(holds, room)
		granted = min(granted, holds)
	}
	own.held = max(granted, holds)
	if p[c.Holder] = own; own.held == 0 && own.wants == 0 {
		delete(p, c.Holder)
	}
	return granted
}

// fair is the holder's fair share: those who want least are served first, and each may
// have an equal part of what is left then.
func (p parts) fair(limit int64, holder string) int64 {
	type wish struct {
		wants  int64
		holder string
	}
	var wishes []wish
	for holder, of := range p {
		wishes = append(wishes, wish{of.wants, holder})
	}
	slices.SortFunc(wishes, func(a, b wish) int {
		return cmp.Or(cmp.Compare(a.wants, b.wants), cmp.Compare(a.holder, b.holder))
	})
	left, share := max(limit, 0), int64(0)
	for i, w := range wishes {
		share = min(w.wants, left/int64(len(wishes)-i))
		if left -= share; w.holder == holder {
			break
		}
	}
	return share
}

// NewMemoryShares returns Shares for the holders of one process: the model that share.lua follows.
func NewMemoryShares() Shares { return &memoryShares{numbers: map[string]parts{}} }

type memoryShares struct {
	mu      sync.Mutex
	numbers map[string]parts
}

// Renew implements Shares.
func (m *memoryShares) Renew(_ context.Context, key string, c Claim) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.numbers[key] == nil {
		m.numbers[key] = parts{}
	}
	return answered(m.numbers[key].renew(time.Now().UnixMicro(), c))
}

// A bucket is what is known of a key whose spec is a bucket: what is owed for the units
// taken, which drains steadily. Its numbers are whole: a unit costs a whole number of
// parts, and a whole number of them drains in a µs, so that no fraction is ever lost.
// bucket.lua is the same arithmetic.
//
// Token bucket, leaky bucket and GCRA are this one state; they differ by their terms.
type bucket struct {
	debt int64 // parts
	at   int64 // the instant of that, in µs

	// of a ramp: how long it has been warming up, and when it was slowed, in µs
	warm, slowed int64

	// of the terms that it was counted by: what drains in a µs, and what is covered at once
	drain, burst int64
}

// slowedFor is for how long, in µs, a bucket that was slowed is not slowed again: all its
// users meet the same trouble at about the same time.
const slowedFor = 1_000_000

// Cells are what is known of a key for one rate of a window: how many units were taken
// in each cell of Redis's time. cells.lua is the same arithmetic.
type cells struct {
	length int64 // of a cell, in µs
	newest int64 // the number of the newest cell
	counts []int // of the newest and those before it
}
