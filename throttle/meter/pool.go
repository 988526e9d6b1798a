package meter

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// Pools hold what a process has taken of a meter's units ahead of their use: they are
// leased in batches, so that one round trip serves many, and lapse where nobody uses
// them in time. Of each key one ask is under way at a time. It is as large as what is
// waited for and is about to be used, so that nothing is asked while nothing is used. A
// meter that does not answer is asked whether it does again.
//
// A unit is used within Spec.Life of the moment before it was asked for, by this
// process's monotonic clock: no clocks have to agree, and what a crash, a stall or a
// lost reply leaves unused lapses. Units never go back to the meter: what is counted
// there is never less than what is used.
//
// Safe for concurrent use. No lock is held while the meter is asked.
type Pools struct {
	meter  Meter
	ctx    context.Context
	cancel context.CancelFunc
	asks   sync.WaitGroup

	mu    sync.Mutex
	pools map[string]*Pool
	came  int64 // how many have come, which says who was first
}

// A Pool is what a process holds of one key.
type Pool struct {
	Key  string
	all  *Pools
	spec func() Spec

	// under all.mu
	batches   []batch // by when they lapse
	waiting   [Ordinary + 1][]*waiter
	asking    bool
	asks      [2]turn   // of who keeps nothing for others, and of who does
	short     time.Time // when there were fewer than were asked for
	timer     *time.Timer
	wakes     time.Time // when the timer has the meter asked
	life      time.Duration
	err       error // of the last ask
	failed    int   // how many have, one after another
	used      flow
	taken     int64     // units, on the whole
	delayed   int64     // how many had to wait, or to come back
	back      time.Time // when the last of those that were turned away comes back
	backRates string    // by which it does
}

// A turn is when the meter may be asked, and when it has units again, by those rates.
type turn struct {
	next, free time.Time
	rates      string
	short      bool // it had less than was asked for
}

// A batch is leased units, to be used from one instant, when they are covered, to
// another.
type batch struct {
	units       int
	from, until time.Time
}

// A Rank is who is served before others.
type Rank int

// The ranks. Urgent ones may use what others leave for them. Begun are those whose unit
// has lapsed when everything else was ready.
const (
	Urgent Rank = iota
	Begun
	Ordinary
)

// turn is which of a pool's asks are for the rank.
func (r Rank) turn() int { return int(min(r, 1)) }

// A Need is how many units of a pool something costs.
type Need struct {
	Pool  *Pool
	Units int
}

// A waiter waits for units: in the line of the pool that lacks them, one at a time.
type waiter struct {
	needs []Need
	rank  Rank
	came  int64
	line  *Pool         // nil once it has them
	until time.Time     // by when to use them
	given chan struct{} // closed when it has them
}

const (
	// askTimeout bounds a question to the meter.
	askTimeout = time.Second
	// longestTurn is after how long the meter is asked again at the latest: what it
	// allows may have changed.
	longestTurn = time.Second
	// longestAhead is how far ahead units are taken that are covered one after the other.
	longestAhead = 20 * time.Millisecond
	// keptShare is what share of a burst is kept for urgent ones.
	keptShare = 10
	// Of a key that is short wait at once as many as are served in crowdTime, lately or by its
	// rates, mostCrowd at most.
	crowdTime = 2 * time.Second
	mostCrowd = 2048
	// What is turned away comes back one after the other, twice as fast as all is
	// served, but not faster than backGap unless this process alone serves so many. It
	// stays away for leastBack, and for not much longer than mostBack.
	backGap             = time.Millisecond
	leastBack, mostBack = time.Second, 5 * time.Minute
)

// MostWaiting is how many wait for one key at most.
const MostWaiting = 2 * mostCrowd

// units is how many units of the pool it waits for.
func (w *waiter) units(p *Pool) int {
	i := slices.IndexFunc(w.needs, func(n Need) bool { return n.Pool == p })
	return w.needs[i].Units
}

// NewPools returns pools of the meter. Close them.
func NewPools(m Meter) *Pools {
	ps := &Pools{meter: m, pools: make(map[string]*Pool)}
	ps.ctx, ps.cancel = context.WithCancel(context.Background())
	return ps
}

// Close ends what is asked. What is held lapses.
func (ps *Pools) Close() {
	ps.cancel()
	ps.mu.Lock()
	for _, p := range ps.pools {
		p.wakeAt(time.Time{})
	}
	ps.mu.Unlock()
	ps.asks.Wait()
}

// Of returns the pool of the key, of which spec returns what is allowed. Whoever asks
// for the same key gets the same pool.
func (ps *Pools) Of(key string, spec func() Spec) *Pool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.pools[key]
	if p == nil {
		p = &Pool{Key: key, all: ps, spec: spec}
		ps.pools[key] = p
	}
	return p
}

// Take takes all that is needed, or nothing, and returns by when to use it. It waits for
// so long at most, behind those of its rank who came before, unless there are too many of
// them. What it does not get the pool lacks that it returns. Of more than a pool ever has
// at once, it takes as much as that, and says so in needs.
func (ps *Pools) Take(ctx context.Context, needs []Need, rank Rank, most time.Duration) (until time.Time, lacking *Pool) {
	w := &waiter{needs: needs, rank: rank}
	if lacking = ps.enter(w, most); w.given == nil {
		return w.until, lacking
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-w.given:
		return w.until, nil
	case <-timer.C:
	case <-ctx.Done():
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if lacking = w.line; lacking != nil { // else it was just given
		line := lacking.waiting[rank]
		i := slices.Index(line, w)
		lacking.waiting[rank] = slices.Delete(line, i, i+1)
	}
	return w.until, lacking
}

// enter serves one at once, or has it stand in line where it may.
func (ps *Pools) enter(w *waiter, most time.Duration) (lacking *Pool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	now := time.Now()
	ps.came++
	w.came = ps.came
	if lacking = ps.grant(w, now); lacking == nil {
		return nil
	}
	lacking.delayed++
	if most > 0 && lacking.room(w.rank, now, most) > 0 {
		w.line, w.given = lacking, make(chan struct{})
		lacking.waiting[w.rank] = append(lacking.waiting[w.rank], w)
	}
	lacking.refill(now)
	return lacking
}

// grant has the waiter take what it needs, or returns a pool that lacks it: that has too
// few units, or others who come first. Of several it is the one that lacks it longest, so
// that the others are not asked for what would lapse.
func (ps *Pools) grant(w *waiter, now time.Time) (lacking *Pool) {
	free := func(p *Pool) time.Time { return p.asks[w.rank.turn()].free }
	for i := range w.needs {
		n := &w.needs[i]
		n.Units = min(n.Units, n.Pool.leased().most(w.rank)) // which may have become fewer
		lacks := n.Pool.first(w) != w || n.Pool.held(now) < n.Units
		if lacks && (lacking == nil || free(n.Pool).After(free(lacking))) {
			lacking = n.Pool
		}
	}
	if lacking != nil {
		return lacking
	}
	for _, n := range w.needs {
		if until := n.Pool.use(n.Units, now); w.until.IsZero() || until.Before(w.until) {
			w.until = until
		}
		n.Pool.refill(now)
	}
	return nil
}

// Return gives back what was taken and is certainly not used. It lapses when it would have.
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

// Room returns how many more may come and wait in the process, where one waits for so
// long at most: none when there is nothing for that long.
func (p *Pool) Room(most time.Duration) int {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	return p.room(Ordinary, time.Now(), most)
}

func (p *Pool) room(rank Rank, now time.Time, most time.Duration) int {
	if p.free(rank).Sub(now) > most {
		return 0
	}
	crowd := mostCrowd
	if p.asks[rank.turn()].short { // else they get theirs with the next answer
		served := max(p.used.over(now, crowdTime), 1+int(crowdTime/max(1, p.leased().each())))
		crowd = min(crowd, served)
	}
	return max(0, crowd-len(p.waiting[rank]))
}

// free is when there are units again for one of the rank; zero when that is not known, as
// once the rates are others.
func (p *Pool) free(rank Rank) time.Time {
	if t := p.asks[rank.turn()]; t.free.IsZero() || t.rates == p.leased().text() {
		return t.free
	}
	return time.Time{}
}

// Back returns after how long the next one that is turned away is to come back.
func (p *Pool) Back() time.Duration {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	now := time.Now()
	gap := backGap
	if served := p.used.over(now, time.Second); served > 0 {
		gap = min(gap, time.Second/time.Duration(2*served))
	}
	gap = max(gap, p.leased().each()/2)
	soonest := now.Add(max(leastBack, min(mostBack, p.free(Ordinary).Sub(now)))) // the spec may change
	at, rates := p.back, p.leased().text()
	if at.Before(soonest) || at.Sub(soonest) > mostBack || rates != p.backRates {
		at = soonest
	}
	p.back, p.backRates = at.Add(gap), rates
	return at.Sub(now)
}

// Stats are what is known of a pool.
type Stats struct {
	Key string
	// Taken is how many units this process has taken of the meter, and Waited how often
	// somebody had to wait for one, or to come back.
	Taken, Waited int64
	// Waiting is how many wait in the process.
	Waiting int
	// Used is what share of what is allowed this process uses.
	Used float64
	// Free is when there are units again; zero when there are.
	Free time.Time
	// Rate is what is allowed, as it is written.
	Rate string
	// Err is why the meter does not say what there is; nil when it does.
	Err error
}

// Stats returns what is known of each pool, in no order.
func (ps *Pools) Stats() []Stats {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	all := make([]Stats, 0, len(ps.pools))
	for _, p := range ps.pools {
		all = append(all, p.stats(time.Now()))
	}
	return all
}

// Stats returns what is known.
func (p *Pool) Stats() Stats {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	return p.stats(time.Now())
}

func (p *Pool) stats(now time.Time) Stats {
	l := p.leased()
	s := Stats{Key: p.Key, Taken: p.taken, Waited: p.delayed, Rate: l.text(), Err: p.err}
	for _, line := range p.waiting {
		s.Waiting += len(line)
	}
	s.Used = float64(p.used.over(now, time.Second)) * l.each().Seconds()
	if free := p.free(Ordinary); free.After(now) {
		s.Free = free
	}
	return s
}

// held is how many units there are. What has lapsed is dropped.
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

// use takes units, those first that lapse first, and returns when the first of them does.
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

// first returns who is served first of those in line and of the one.
func (p *Pool) first(w *waiter) *waiter {
	for rank, line := range p.waiting[:w.rank+1] {
		if len(line) > 0 && (Rank(rank) < w.rank || line[0].came < w.came) {
			return line[0]
		}
	}
	return w
}

// serve gives those in line what there is. Who lacks something else as well goes on to
// stand in line for that, where its place is, and no more do than there is for here.
func (p *Pool) serve(now time.Time) {
	gone := 0
	for rank := range p.waiting {
		for len(p.waiting[rank]) > 0 {
			w := p.waiting[rank][0]
			if gone > 0 && p.held(now) < gone+w.units(p) {
				return
			}
			lacking := p.all.grant(w, now)
			if lacking == p {
				return
			}
			p.waiting[rank] = p.waiting[rank][1:]
			if w.line = lacking; lacking == nil {
				close(w.given)
				continue
			}
			gone += w.units(p)
			line := lacking.waiting[rank]
			i, _ := slices.BinarySearchFunc(line, w, func(a, b *waiter) int { return cmp.Compare(a.came, b.came) })
			lacking.waiting[rank] = slices.Insert(line, i, w)
			lacking.refill(now)
		}
	}
}

// leased is what is allowed now. It is a promise, whatever the spec says: what is leased
// is used after it was taken.
type leased struct{ spec Spec }

func (p *Pool) leased() leased { return leased{p.spec().Promise()} }

// most is how many units one of the rank gets at once at most.
func (l leased) most(r Rank) int {
	if r == Urgent {
		return l.spec.AtOnce()
	}
	return l.spec.AtOnce() - l.kept()
}

// kept is how many of them are left for the urgent ones.
func (l leased) kept() int { return l.spec.AtOnce() / keptShare }

// each is how long it takes for another unit, on the whole.
func (l leased) each() (most time.Duration) {
	for _, r := range l.spec.Rates {
		most = max(most, r.Period/time.Duration(r.Count))
	}
	return most
}

// ahead is how far ahead units are taken of a bucket that holds less than comes in that
// time, as a leaky one does: one ask serves several, who use theirs a little later than
// they might. It is short against the life that begins with the ask.
func (l leased) ahead() time.Duration {
	ahead := min(longestAhead, l.spec.Life/4)
	if l.spec.windowed() || time.Duration(l.spec.AtOnce())*l.each() >= ahead {
		return 0
	}
	return ahead
}

// text is the rates as they are written.
func (l leased) text() string {
	all := make([]string, len(l.spec.Rates))
	for i, r := range l.spec.Rates {
		all[i] = r.String()
	}
	return strings.Join(all, ", ")
}
