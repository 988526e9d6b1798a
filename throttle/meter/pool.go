package meter

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Pools hold units that this process has leased from a meter ahead of their use, so that one
// round trip serves many pushes. Each key has at most one request in flight. It asks for the
// units that waiters need or that will be used soon, so an idle process asks for nothing. After a
// failure the requests repeat with growing delays.
//
// A unit is used within Spec.Life, which counts from just before the unit's request, by this
// process's monotonic clock. So clocks need not agree, and a crash, a stall or a lost reply only
// wastes units. Units never go back to the meter, so that it never counts fewer than are used.
//
// Safe for concurrent use. No lock is held during a request.
type Pools struct {
	meter  Meter
	ctx    context.Context
	cancel context.CancelFunc
	asks   sync.WaitGroup

	mu    sync.Mutex
	pools map[string]*Pool
}

// A Pool holds the leased units of one key.
type Pool struct {
	Key  string
	all  *Pools
	spec func() Spec // a promise, as units are used after they were taken

	// under all.mu
	batches []batch                 // in the order of expiry
	waiting [Ordinary + 1][]*waiter // in the order of arrival
	asking  bool
	asks    [2]turn     // for urgent callers, and for all others
	scarce  time.Time   // when a request for non-urgent callers last got fewer units than it asked for
	timer   *time.Timer // calls wake
	err     error       // of the last request
	failed  int         // failed requests since the last answer
	used    flow
	taken   int64 // units, since the start
	delayed int64 // calls that found too few units
}

// A turn is the time of the next request, and the time at which the meter has units again,
// computed with the given rates.
type turn struct {
	next, free time.Time
	rates      string
	short      bool // the last answer had fewer units than requested
}

// A batch is a number of leased units, usable from the instant at which they are covered.
type batch struct {
	units       int
	from, until time.Time
}

// A Rank is the priority of a waiter: lower ranks are served first, waiters of one rank in the
// order of arrival.
type Rank int

// The ranks. Urgent callers may use the reserved units. Begun callers hold something that expires
// while they wait: units of another pool, or a user's admission.
const (
	Urgent Rank = iota
	Begun
	Ordinary
)

// turn returns the index of the pool's requests that serve the rank.
func (r Rank) turn() int { return int(min(r, 1)) }

// A Need is a number of units of a pool.
type Need struct {
	Pool  *Pool
	Units int
}

// A waiter waits for units of one pool.
type waiter struct {
	units int
	until time.Time     // when the units expire; zero until the waiter has them
	given chan struct{} // closed when the waiter has its units
}

// MostWaiting is twice the number of waiters that one pool accepts of each rank: two exhausted
// quotas may occupy all of a worker's capacity. Each waiter is a goroutine and a notification, about
// 10 kB.
const MostWaiting = 4096

// reservedShare is the divisor of the part of a burst that is reserved for urgent callers: a
// tenth, as docs/operators.md says. The reserve serves them until the next lease, and costs other
// callers little.
const reservedShare = 10

// NewPools returns pools of the meter. The caller closes them.
func NewPools(m Meter) *Pools {
	ps := &Pools{meter: m, pools: make(map[string]*Pool)}
	ps.ctx, ps.cancel = context.WithCancel(context.Background())
	return ps
}

// Close cancels all requests. Held units expire.
func (ps *Pools) Close() {
	ps.cancel()
	ps.mu.Lock()
	for _, p := range ps.pools {
		p.timer.Stop()
	}
	ps.mu.Unlock()
	ps.asks.Wait()
}

// Of returns the pool of the key, the same pool in each call. spec returns the current limit.
func (ps *Pools) Of(key string, spec func() Spec) *Pool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.pools[key]
	if p == nil {
		p = &Pool{Key: key, all: ps, spec: func() Spec { return spec().Promise() }}
		p.timer = time.AfterFunc(time.Hour, p.wake) // the time does not matter: refill resets it
		ps.pools[key] = p
	}
	return p
}

// Take takes all needs, or nothing. It waits for at most the duration most, and not at all if the
// queue is full or the units come later. It returns until, when the units expire, or lacking, a
// pool with too few units. It lowers a need that is larger than its pool can ever hold.
//
// Take waits for one pool at a time. With the units of the first pool it has a higher rank in the
// second. It returns the first pool's units if they expire before the second pool has units.
func (ps *Pools) Take(ctx context.Context, needs []Need, rank Rank, most time.Duration) (until time.Time, lacking *Pool) {
	for end := time.Now().Add(most); ; {
		until, lacking, w := ps.enter(needs, rank, end)
		if w == nil {
			return until, lacking
		}
		if !lacking.await(ctx, w, rank, end) {
			return time.Time{}, lacking
		}
		first := slices.IndexFunc(needs, func(n Need) bool { return n.Pool == lacking })
		needs[0], needs[first] = needs[first], needs[0]
		needs[0].Units = w.units
		if len(needs) == 1 {
			return w.until, nil
		}
		within := min(time.Until(w.until), time.Until(end))
		if until, lacking = ps.Take(ctx, needs[1:], min(rank, Begun), within); lacking == nil {
			return earlier(w.until, until), nil
		}
		ps.Return(needs[:1], w.until)
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// enter takes everything, or returns a pool that has too few units, and a waiter in its queue if
// the queue has room. If several pools have too few, it returns the pool that gets units last,
// because units of the other pools would expire meanwhile.
func (ps *Pools) enter(needs []Need, rank Rank, end time.Time) (until time.Time, lacking *Pool, w *waiter) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	now, units := time.Now(), 0
	for i := range needs {
		n := &needs[i]
		n.Units = min(n.Units, n.Pool.most(rank))
		if n.Pool.lacks(n.Units, rank, now) && (lacking == nil || n.Pool.free(rank).After(lacking.free(rank))) {
			lacking, units = n.Pool, n.Units
		}
	}
	if lacking == nil {
		for i, n := range needs {
			expires := n.Pool.use(n.Units, now)
			if i == 0 {
				until = expires
			}
			until = earlier(until, expires)
			n.Pool.refill(now)
		}
		return until, nil, nil
	}
	lacking.delayed++
	if most := end.Sub(now); most > 0 && lacking.room(rank, now, most) > 0 {
		w = &waiter{units: units, given: make(chan struct{})}
		lacking.waiting[rank] = append(lacking.waiting[rank], w)
	}
	lacking.refill(now)
	return time.Time{}, lacking, w
}

// await waits for the waiter's units, at most until end.
func (p *Pool) await(ctx context.Context, w *waiter, rank Rank, end time.Time) bool {
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	select {
	case <-w.given:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	if !w.until.IsZero() {
		return true // the waiter has just got its units
	}
	i := slices.Index(p.waiting[rank], w)
	p.waiting[rank] = slices.Delete(p.waiting[rank], i, i+1)
	p.serve(time.Now()) // the next waiters may need fewer
	return false
}

// Return gives back units that were certainly not used. They expire as before.
func (ps *Pools) Return(needs []Need, until time.Time) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	now := time.Now()
	for _, n := range needs {
		n.Pool.used.add(now, -n.Units)
		if n.Units > 0 && now.Before(until) {
			n.Pool.hold(batch{units: n.Units, until: until})
			n.Pool.serve(now)
		}
	}
}

// Room returns how many more callers of the rank may wait for at most maxWait; 0 if the pool gets
// no units within that time.
func (p *Pool) Room(rank Rank, maxWait time.Duration) int {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	return p.room(rank, time.Now(), maxWait)
}

func (p *Pool) room(rank Rank, now time.Time, most time.Duration) int {
	if p.free(rank).Sub(now) > most {
		return 0
	}
	room := MostWaiting / 2
	switch {
	case p.failed > 0: // one waiter probes the meter
		room = 1
	case p.asks[rank.turn()].short: // otherwise the next answer serves all waiters
		room = min(room, 1+int(most/max(1, p.spec().interval())))
	}
	return max(0, room-len(p.waiting[rank]))
}

// free returns when the meter has units again for the rank; zero if that is unknown, for example
// after a change of the rates.
func (p *Pool) free(rank Rank) time.Time {
	if t := p.asks[rank.turn()]; t.free.IsZero() || t.rates == p.spec().text() {
		return t.free
	}
	return time.Time{}
}

// Stats describe a pool.
type Stats struct {
	Key string
	// Taken is the number of units that this process has leased. Waited is the number of calls
	// that found too few units.
	Taken, Waited int64
	// Waiting is the number of waiters in this process.
	Waiting int
	// Used is the share of the limit that this process uses.
	Used float64
	// Free is when units are available again; zero for now.
	Free time.Time
	// Rate is the limit in its configuration form.
	Rate string
	// Err is the error of the last request; nil if it succeeded.
	Err error
}

// Stats returns the stats of all pools, in no order.
func (ps *Pools) Stats() []Stats {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	all := make([]Stats, 0, len(ps.pools))
	for _, p := range ps.pools {
		all = append(all, p.stats(time.Now()))
	}
	return all
}

// Stats returns the pool's stats.
func (p *Pool) Stats() Stats {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	return p.stats(time.Now())
}

func (p *Pool) stats(now time.Time) Stats {
	spec := p.spec()
	s := Stats{Key: p.Key, Taken: p.taken, Waited: p.delayed, Rate: spec.text(), Err: p.err}
	for _, queue := range p.waiting {
		s.Waiting += len(queue)
	}
	s.Used = float64(p.used.over(now, time.Second)) * spec.interval().Seconds()
	if free := p.free(Ordinary); free.After(now) {
		s.Free = free
	}
	return s
}

// most returns the largest number of units that one caller of the rank can get.
func (p *Pool) most(r Rank) int {
	s := p.spec()
	if r == Urgent {
		return s.AtOnce()
	}
	return s.AtOnce() - s.reserve()
}

// lacks reports whether the caller must wait: for units, or behind other waiters.
func (p *Pool) lacks(units int, rank Rank, now time.Time) bool {
	for _, queue := range p.waiting[:rank+1] {
		if len(queue) > 0 {
			return true
		}
	}
	return p.held(now) < units
}

// held returns the usable units. It removes expired batches.
func (p *Pool) held(now time.Time) (n int) {
	for len(p.batches) > 0 && !now.Before(p.batches[0].until) {
		p.batches = p.batches[1:]
	}
	for _, b := range p.batches {
		if !now.Before(b.from) {
			n += b.units
		}
	}
	return n
}

// hold adds a batch.
func (p *Pool) hold(b batch) {
	i, same := slices.BinarySearchFunc(p.batches, b.until, func(b batch, t time.Time) int { return b.until.Compare(t) })
	if same {
		p.batches[i].units += b.units
		return
	}
	p.batches = slices.Insert(p.batches, i, b)
}

// use takes the units that expire first, and returns the earliest expiry.
func (p *Pool) use(units int, now time.Time) (until time.Time) {
	p.used.add(now, units)
	for i := range p.batches {
		b := &p.batches[i]
		if now.Before(b.from) {
			continue
		}
		n := min(units, b.units)
		if n > 0 && until.IsZero() {
			until = b.until
		}
		b.units -= n
		units -= n
	}
	p.batches = slices.DeleteFunc(p.batches, func(b batch) bool { return b.units == 0 })
	return until
}

// serve gives units to the waiters in order.
func (p *Pool) serve(now time.Time) {
	for rank := range p.waiting {
		for len(p.waiting[rank]) > 0 {
			w := p.waiting[rank][0]
			w.units = min(w.units, p.most(Rank(rank))) // the rate may be lower now
			if p.held(now) < w.units {
				return
			}
			p.waiting[rank] = p.waiting[rank][1:]
			w.until = p.use(w.units, now)
			close(w.given)
		}
	}
}
