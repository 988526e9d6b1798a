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

	mu       sync.Mutex
	permits  int                    // current number, up to most
	open     int                    // how many may be in use after a closing: see reopen
	wanted   int                    // the last result of demand
	inUse    int                    // permits in use
	stale    int                    // in use since before the last closing
	waiting  [len(ranked)][]*waiter // by rank, in order of arrival
	skipped  int                    // permits given past the longest waiter
	expected [len(ranked)]int       // by rank: claimed jobs on their way to the bulkhead
	reserved [len(ranked)]int       // by rank: reserved by running pulls
	released flow                   // permits released

	idle atomic.Bool // no permit is in use, no job waits or is on its way, all permits are open
}

// A waiter waits for a permit.
type waiter struct {
	since   time.Time
	granted chan struct{} // closed when the permit is given
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
	// criticalShare is the fraction (1/32) of the permits reserved for critical pushes: 8 of 256, which
	// serve 160 a second at 50 ms each. It costs the other pushes 3 %.
	criticalShare = 32
	// fairShare is the fraction (1/8) for jobs that would otherwise get nothing. One in eight waited-for
	// permits goes to the longest waiter, and one in eight waiters may be bulk. One in eight jobs of a
	// pull may belong to a crowd. An idle worker has an eighth of all workers' permits. A larger fraction
	// would noticeably delay the jobs ahead.
	fairShare = 8
	// maxWaiters is the maximum of waiters in the process: as many as the fastest route, some
	// 25,000 pushes a second, sends while the loop waits for capacity.
	maxWaiters = 512
	// MaxWait is how long a job waits in the process for a permit or a quota unit. The process asks Redis
	// for units at least once a second. A job that gets neither in time is parked.
	MaxWait = 2 * time.Second
)

// MaxClaimed returns the maximum of claimed jobs of a process for a bulkhead with that many
// permits.
func MaxClaimed(permits int) int { return permits + 2*maxWaiters }

func newBulkhead(permits int) *Bulkhead {
	b := &Bulkhead{most: permits, permits: permits, open: permits}
	b.idle.Store(true)
	return b
}

func (b *Bulkhead) updateIdle() {
	n := b.inUse
	for _, coming := range b.expected {
		n += coming
	}
	b.idle.Store(n == 0 && b.open >= b.most && b.permits > 0)
}

// resize sets the number of permits. If more permits are in use, no waiter gets one until fewer are in
// use.
func (b *Bulkhead) resize(permits int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if permits != b.permits {
		b.permits = permits
		b.grant()
		b.updateIdle()
	}
}

// reopen limits a closed route to one permit. Pushes that are already in flight, and may hang, do not use
// this permit.
func (b *Bulkhead) reopen() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stale = b.inUse
	b.openTo(1)
}

func (b *Bulkhead) openTo(permits int) {
	b.open = permits
	b.updateIdle()
}

// worked adjusts the open permits of a reopened route. A successful push adds one, so that the
// open permits double with each round trip. A failed push halves them.
func (b *Bulkhead) worked(works bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.open >= b.most:
	case works:
		b.openTo(b.open + 1)
		b.grant()
	default:
		b.openTo(max(1, b.open/2))
	}
}

// demand returns how many permits are or may be in use, and how many this worker could use: twice the
// permits in use, or all if waiters need more.
func (b *Bulkhead) demand() (holds, wants int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	holds, wants = max(b.permits, b.inUse), max(1, b.most/fairShare, 2*b.inUse, b.wanted/2)
	if b.queued() > 0 || b.inUse >= b.permits {
		wants = b.most
	}
	b.wanted = min(wants, b.most)
	return holds, b.wanted
}

// free returns how many permits are free for the rank; negative if too many are in use.
func (b *Bulkhead) free(rank int) int {
	free := func(permits, taken int) int {
		if rank > 0 {
			permits -= permits / criticalShare
		}
		return permits - taken
	}
	return min(free(b.permits, b.inUse), free(b.open, b.inUse-b.stale))
}

// size returns the current number of permits.
func (b *Bulkhead) size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.permits
}

// load returns the number of permits in use and of waiters.
func (b *Bulkhead) load() (taken, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inUse, b.queued()
}

// queued returns the number of waiters.
func (b *Bulkhead) queued() int {
	n := 0
	for _, of := range b.waiting {
		n += len(of)
	}
	return n
}

// capacity returns how many more jobs of the rank may come: one for each free permit, and as many waiters
// as permits are released in a second. It is negative if too many jobs are on their way. Default jobs go
// before bulk jobs, which may be an eighth of the waiters.
func (b *Bulkhead) capacity(rank int, now time.Time) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.capacityLocked(rank, now)
}

func (b *Bulkhead) capacityLocked(rank int, now time.Time) int {
	line := min(max(1, b.released.perSecond(now)), maxWaiters)
	ahead := func(rank int) int { return len(b.waiting[rank]) + b.expected[rank] }
	switch {
	case b.permits == 0: // this worker's share has lapsed
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

// reserve reserves capacity for up to most jobs of the rank, and returns for how many it did. If there is
// capacity for all, it reserves nothing and bounded is false. Claimed jobs may use the reserved capacity
// too.
func (b *Bulkhead) reserve(rank, most int, now time.Time) (n int, bounded bool) {
	if b.idle.Load() {
		return 0, false // makes routes without jobs cheap
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	room := b.capacityLocked(rank, now) - b.reserved[rank]
	if room >= most {
		return 0, false
	}
	n = max(0, room)
	b.reserved[rank] += n
	return n, true
}

// unreserve ends a pull's reservation.
func (b *Bulkhead) unreserve(rank, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reserved[rank] -= n
}

// expect adds n to the jobs on their way.
func (b *Bulkhead) expect(rank, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addExpected(rank, n)
}

func (b *Bulkhead) addExpected(rank, n int) {
	b.expected[rank] += n
	b.updateIdle()
}

// addInUse adds n to the permits in use.
func (b *Bulkhead) addInUse(n int) {
	b.inUse += n
	b.updateIdle()
}

// Expect adds n to the jobs of the priority on their way to each bulkhead.
func Expect(bulkheads []*Bulkhead, p push.Priority, n int) {
	for _, b := range bulkheads {
		b.expect(rankOf(p), n)
	}
}

// Fits reports whether there is capacity for a job on its way. If not, Fits removes it from the
// jobs on their way.
func (b *Bulkhead) Fits(p push.Priority, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	rank := rankOf(p)
	fits := b.capacityLocked(rank, now) >= 0
	if !fits {
		b.addExpected(rank, -1)
	}
	return fits
}

// HasFree reports whether each of the bulkheads has a free permit now.
func HasFree(bulkheads []*Bulkhead, p push.Priority) bool {
	return !slices.ContainsFunc(bulkheads, func(b *Bulkhead) bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.free(rankOf(p)) <= 0
	})
}

// TryAcquire takes a permit of each bulkhead if each has a free one, and otherwise none.
func TryAcquire(bulkheads []*Bulkhead, p push.Priority) bool {
	for i, b := range bulkheads {
		if !b.tryAcquire(rankOf(p)) {
			Release(bulkheads[:i])
			return false
		}
	}
	return true
}

func (b *Bulkhead) tryAcquire(rank int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.free(rank) <= 0 {
		return false
	}
	b.addInUse(1)
	return true
}

// Acquire takes a permit of each bulkhead, and waits at most MaxWait at each. If a bulkhead gives no
// permit, Acquire takes none and returns that bulkhead.
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
	p := b.takeOrQueue(rank)
	if p == nil {
		return true
	}
	timer := time.NewTimer(MaxWait)
	defer timer.Stop()
	select {
	case <-p.granted:
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

// takeOrQueue takes a free permit, or adds a waiter. A rank has no waiters while it has free
// permits.
func (b *Bulkhead) takeOrQueue(rank int) *waiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.free(rank) > 0 {
		b.addInUse(1)
		return nil
	}
	p := &waiter{time.Now(), make(chan struct{})}
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
	b.stale = max(0, b.stale-1) // assumes that older pushes end first
	b.addInUse(-1)
	b.released.add(time.Now())
	b.grant()
}

// grant gives free permits to waiters.
func (b *Bulkhead) grant() {
	for rank := b.nextRank(); rank >= 0; rank = b.nextRank() {
		p := b.waiting[rank][0]
		b.waiting[rank] = b.waiting[rank][1:]
		b.addInUse(1)
		close(p.granted)
	}
}

// nextRank returns the rank of the next waiter to get a permit; -1 if no waiter may get one.
func (b *Bulkhead) nextRank() int {
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
		b.skipped = 0
	case first >= 0:
		b.skipped++
	}
	if b.skipped == fairShare {
		b.skipped = 0
		return longest
	}
	return first
}

// A flow counts events by second. The zero value has no events.
type flow struct {
	second    int64 // since 1970
	now, last int   // counts of second and of the second before it
}

func (f *flow) add(at time.Time) {
	f.turn(at)
	f.now++
}

// perSecond returns the count of the last second, or of the current one if larger.
func (f *flow) perSecond(at time.Time) int {
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
