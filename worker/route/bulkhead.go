package route

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pushpace/pushpace/push"
)

// A Bulkhead is a semaphore with priorities. It bounds the pushes in flight to one provider of
// one app, so that a slow provider delays only its own notifications. Waiters get permits by
// priority, and within a priority in order of arrival. A few permits are reserved for critical
// pushes.
type Bulkhead struct {
	most int // the configured number of permits

	mu      sync.Mutex
	places  int                   // current number, at most most
	open    int                   // how many may be in use after a closing: see reopen
	wanted  int                   // the last result of wants
	taken   int                   // permits in use
	old     int                   // in use since before the last closing
	waiting [len(ranked)][]*place // by rank, in order of arrival
	passed  int                   // permits given past the longest waiter
	coming  [len(ranked)]int      // by rank: claimed jobs on their way to the bulkhead
	pulls   [len(ranked)]int      // by rank: reserved by running pulls
	left    flow                  // permits released

	idle atomic.Bool // no permit in use, none waiting or on its way, all open
}

// A place is a waiter for a permit.
type place struct {
	since time.Time
	given chan struct{} // closed when the permit is given
}

// ranked are the priorities in the order in which they get permits.
var ranked = [...]push.Priority{push.Critical, push.Default, push.Bulk}

func rankOf(p push.Priority) int {
	if i := slices.Index(ranked[:], p); i >= 0 {
		return i
	}
	return 1 // "" is Default
}

const (
	// keptShare is the fraction (1/32) of the permits reserved for critical pushes: 8 of 256,
	// which serve 160 a second at 50 ms each. It costs the others 3 %.
	keptShare = 32
	// fairShare is the fraction (1/8) for jobs that would otherwise get nothing. One in eight
	// waited-for permits goes to the longest waiter, and one in eight waiters may be bulk. One in
	// eight jobs of a pull may be of a crowd. An idle worker has an eighth of all workers'
	// permits. A larger fraction would noticeably delay the jobs ahead.
	fairShare = 8
	// mostLine is the maximum of waiters in the process: as many as the fastest route, some
	// 25,000 pushes a second, sends while the loop waits for capacity.
	mostLine = 512
	// MaxWait is how long a job waits in the process for a permit or a quota unit. The process
	// asks Redis for units at least once a second. A job that gets none in time is parked.
	MaxWait = 2 * time.Second
)

// InHand returns the maximum of claimed jobs of a process for a bulkhead with that many places.
func InHand(places int) int { return places + 2*mostLine }

func newBulkhead(places int) *Bulkhead {
	b := &Bulkhead{most: places, places: places, open: places}
	b.idle.Store(true)
	return b
}

// changed updates idle.
func (b *Bulkhead) changed() {
	n := b.taken
	for _, coming := range b.coming {
		n += coming
	}
	b.idle.Store(n == 0 && b.open >= b.most && b.places > 0)
}

// resize sets the number of permits. If more are in use, none is given until fewer are.
func (b *Bulkhead) resize(places int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if places != b.places {
		b.places = places
		b.give()
		b.changed()
	}
}

// reopen limits a closed route to one permit. Pushes that are in flight then, and may hang, do
// not count against it.
func (b *Bulkhead) reopen() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.old = b.taken
	b.openTo(1)
}

func (b *Bulkhead) openTo(places int) {
	b.open = places
	b.changed()
}

// worked opens one more permit after a successful push, so that their number doubles with each
// round trip. A failed push halves it.
func (b *Bulkhead) worked(works bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.open >= b.most:
	case works:
		b.openTo(b.open + 1)
		b.give()
	default:
		b.openTo(max(1, b.open/2))
	}
}

// wants returns the permits that are or may be in use, and the number that this worker could use:
// twice those in use, or all if waiters need more.
func (b *Bulkhead) wants() (holds, wants int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	holds, wants = max(b.places, b.taken), max(1, b.most/fairShare, 2*b.taken, b.wanted/2)
	if b.queued() > 0 || b.taken >= b.places {
		wants = b.most
	}
	b.wanted = min(wants, b.most)
	return holds, b.wanted
}

// free returns how many permits are free for the rank; negative if too many are in use.
func (b *Bulkhead) free(rank int) int {
	free := func(places, taken int) int {
		if rank > 0 {
			places -= places / keptShare
		}
		return places - taken
	}
	return min(free(b.places, b.taken), free(b.open, b.taken-b.old))
}

// size returns the current number of permits.
func (b *Bulkhead) size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.places
}

// load returns the number of permits in use and of waiters.
func (b *Bulkhead) load() (taken, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken, b.queued()
}

// queued returns the number of waiters.
func (b *Bulkhead) queued() int {
	n := 0
	for _, of := range b.waiting {
		n += len(of)
	}
	return n
}

// more returns how many more jobs of the rank may come: one for each free permit, and as many
// waiters as permits are released in a second. It is negative if too many are on their way.
// Default jobs go before bulk jobs, which may be an eighth of the waiters.
func (b *Bulkhead) more(rank int, now time.Time) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.roomFor(rank, now)
}

func (b *Bulkhead) roomFor(rank int, now time.Time) int {
	line := min(max(1, b.left.lately(now)), mostLine)
	ahead := func(rank int) int { return len(b.waiting[rank]) + b.coming[rank] }
	switch {
	case b.places == 0: // this worker's share has lapsed
		return -ahead(rank)
	case b.open < b.most:
		line = min(line, b.open-1)
	}
	all := line + max(0, b.free(rank)) - ahead(rank)
	if bulk := len(ranked) - 1; rank == bulk {
		all = max(all-ahead(rank-1), max(1, line/fairShare)-ahead(rank))
	}
	return all
}

// reserve reserves capacity for up to most jobs of the rank, and returns for how many. bounded is
// false if there is capacity for all; reserve reserves nothing then. Claimed jobs may use the
// reserved capacity too.
func (b *Bulkhead) reserve(rank, most int, now time.Time) (n int, bounded bool) {
	if b.idle.Load() {
		return 0, false // makes routes without jobs cheap
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	room := b.roomFor(rank, now) - b.pulls[rank]
	if room >= most {
		return 0, false
	}
	n = max(0, room)
	b.pulls[rank] += n
	return n, true
}

// pulled ends a pull's reservation.
func (b *Bulkhead) pulled(rank, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pulls[rank] -= n
}

// come adds n to the jobs on their way.
func (b *Bulkhead) come(rank, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.comes(rank, n)
}

func (b *Bulkhead) comes(rank, n int) {
	b.coming[rank] += n
	b.changed()
}

// take adds n to the permits in use.
func (b *Bulkhead) take(n int) {
	b.taken += n
	b.changed()
}

// Expect adds n to the jobs of the priority on their way to each bulkhead.
func Expect(bulkheads []*Bulkhead, p push.Priority, n int) {
	for _, b := range bulkheads {
		b.come(rankOf(p), n)
	}
}

// Fits reports whether there is capacity for a job on its way. If not, Fits removes it from the
// jobs on their way.
func (b *Bulkhead) Fits(p push.Priority, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	rank := rankOf(p)
	fits := b.roomFor(rank, now) >= 0
	if !fits {
		b.comes(rank, -1)
	}
	return fits
}

// Room reports whether each of the bulkheads has a free permit now.
func Room(bulkheads []*Bulkhead, p push.Priority) bool {
	return !slices.ContainsFunc(bulkheads, func(b *Bulkhead) bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.free(rankOf(p)) <= 0
	})
}

// Enter takes a permit of each bulkhead if all have one free, or else none.
func Enter(bulkheads []*Bulkhead, p push.Priority) bool {
	for i, b := range bulkheads {
		if !b.tryEnter(rankOf(p)) {
			Release(bulkheads[:i])
			return false
		}
	}
	return true
}

func (b *Bulkhead) tryEnter(rank int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.free(rank) <= 0 {
		return false
	}
	b.take(1)
	return true
}

// Acquire takes a permit of each bulkhead, or none: it returns the first bulkhead that gave none.
// It waits at most MaxWait at each.
func Acquire(ctx context.Context, bulkheads []*Bulkhead, p push.Priority) (full *Bulkhead) {
	for i, b := range bulkheads {
		if !b.acquire(ctx, rankOf(p)) {
			Release(bulkheads[:i])
			return b
		}
	}
	return nil
}

func (b *Bulkhead) acquire(ctx context.Context, rank int) bool {
	p := b.enter(rank)
	if p == nil {
		return true
	}
	timer := time.NewTimer(MaxWait)
	defer timer.Stop()
	select {
	case <-p.given:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting[rank], p)
	if i >= 0 {
		b.waiting[rank] = slices.Delete(b.waiting[rank], i, i+1)
	}
	return i < 0 // the permit was just given
}

// enter takes a free permit, or adds a waiter. A rank has no waiters while it has free permits.
func (b *Bulkhead) enter(rank int) *place {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.free(rank) > 0 {
		b.take(1)
		return nil
	}
	p := &place{time.Now(), make(chan struct{})}
	b.waiting[rank] = append(b.waiting[rank], p)
	return p
}

// Release returns a permit to each of the bulkheads.
func Release(bulkheads []*Bulkhead) {
	for _, b := range bulkheads {
		b.release()
	}
}

func (b *Bulkhead) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.old = max(0, b.old-1) // assumes that older pushes end first
	b.take(-1)
	b.left.add(time.Now())
	b.give()
}

// give gives free permits to waiters.
func (b *Bulkhead) give() {
	for rank := b.next(); rank >= 0; rank = b.next() {
		p := b.waiting[rank][0]
		b.waiting[rank] = b.waiting[rank][1:]
		b.take(1)
		close(p.given)
	}
}

// next returns the rank of the next waiter to get a permit; -1 if no waiter may get one.
func (b *Bulkhead) next() int {
	first, longest := -1, -1
	for rank, of := range b.waiting {
		if len(of) == 0 {
			continue
		}
		if first < 0 && b.free(rank) > 0 {
			first = rank
		}
		if longest < 0 || of[0].since.Before(b.waiting[longest][0].since) {
			longest = rank
		}
	}
	switch {
	case first == longest:
		b.passed = 0
	case first >= 0:
		b.passed++
	}
	if b.passed == fairShare {
		b.passed = 0
		return longest
	}
	return first
}

// A flow counts events by second. The zero value has counted none.
type flow struct {
	second    int64 // since 1970
	now, last int   // in that second and the one before
}

func (f *flow) add(at time.Time) {
	f.turn(at)
	f.now++
}

// lately returns the count of the last second, or of the current one if larger.
func (f *flow) lately(at time.Time) int {
	f.turn(at)
	return max(f.now, f.last)
}

func (f *flow) turn(at time.Time) {
	switch second := at.Unix(); {
	case second == f.second:
	case second == f.second+1:
		f.second, f.now, f.last = second, 0, f.now
	default:
		f.second, f.now, f.last = second, 0, 0
	}
}
