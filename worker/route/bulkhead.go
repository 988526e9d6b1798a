package route

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pushpace/pushpace/push"
)

// A Bulkhead is a semaphore with priorities: it bounds the pushes in flight to one provider of one
// app, so that one that is slow or stalled holds up its own notifications only. Who waits for a
// place gets it by priority, and by when it came. A few places are kept for critical ones.
type Bulkhead struct {
	most int // places at most

	mu      sync.Mutex
	places  int                   // as many as there are now
	open    int                   // of them, as many as may be taken: see reopen
	wanted  int                   // as many as were lately
	taken   int                   // places
	old     int                   // of them, taken before the last trouble
	waiting [len(ranked)][]*place // by rank, the first first
	passed  int                   // places given since to others than who has waited longest
	coming  [len(ranked)]int      // by rank, those that are in hand and not yet here
	pulls   [len(ranked)]int      // by rank, what pulls that are under way may take
	left    flow                  // places given back

	idle atomic.Bool // nobody has a place, waits or comes, and all places are open
}

// A place is one that is waited for.
type place struct {
	since time.Time
	given chan struct{} // closed when it is
}

// ranked are the priorities as places are given.
var ranked = [...]push.Priority{push.Critical, push.Default, push.Bulk}

func rankOf(p push.Priority) int {
	if i := slices.Index(ranked[:], p); i >= 0 {
		return i
	}
	return 1 // "" is Default
}

const (
	// keptShare is what share of the places is kept for critical ones: 8 of 256, which serve 160 a
	// second at 50 ms each, and cost the others 3 %.
	keptShare = 32
	// fairShare is what share those have who would get nothing beside others: of the places that are
	// waited for one in eight goes to who has waited longest, of those who wait one in eight may be
	// bulk, of a pull one in eight is of a crowd, and an idle worker has an eighth of the places of
	// all workers. With more, those before them would notice.
	fairShare = 8
	// mostLine is how many may wait in the process at most: as many as the fastest route sends, some
	// 25,000 a second, while its loop waits for room.
	mostLine = 512
	// MaxWait is how long a job waits in the process for a place, or for a unit of a quota, of
	// which the process asks Redis at least once a second. A job without one is parked then.
	MaxWait = 2 * time.Second
)

// InHand is how many notifications a process has in hand at most for a bulkhead with so many
// places.
func InHand(places int) int { return places + 2*mostLine }

func newBulkhead(places int) *Bulkhead {
	b := &Bulkhead{most: places, places: places, open: places}
	b.idle.Store(true)
	return b
}

// changed notes whether the bulkhead is idle.
func (b *Bulkhead) changed() {
	n := b.taken
	for _, coming := range b.coming {
		n += coming
	}
	b.idle.Store(n == 0 && b.open >= b.most && b.places > 0)
}

// resize has there be so many places. Where more are taken, nobody comes in until fewer
// are.
func (b *Bulkhead) resize(places int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if places != b.places {
		b.places = places
		b.give()
		b.changed()
	}
}

// reopen opens one place, as the route has a trouble. Pushes that are in flight then, and may hang,
// have places of their own.
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

// worked opens one place more for each push that works, so that their number doubles with each
// answer's time. One that fails halves it.
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

// wants is how many places are or may be taken until they are changed, and how many
// could be used: twice those taken, and all where some are waited for.
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

// free is how many places are free for the rank; negative where more are taken than there are.
func (b *Bulkhead) free(rank int) int {
	free := func(places, taken int) int {
		if rank > 0 {
			places -= places / keptShare
		}
		return places - taken
	}
	return min(free(b.places, b.taken), free(b.open, b.taken-b.old))
}

// size is how many places there are now.
func (b *Bulkhead) size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.places
}

// load is how many places are taken, and how many are waited for.
func (b *Bulkhead) load() (taken, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken, b.queued()
}

// queued is how many wait.
func (b *Bulkhead) queued() int {
	n := 0
	for _, of := range b.waiting {
		n += len(of)
	}
	return n
}

// more is how many more of the rank may come: to places that are free, and to wait for as many as
// become free in a second. Negative when more are on their way. Default ones go before bulk ones,
// which have an eighth of the line.
func (b *Bulkhead) more(rank int, now time.Time) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.roomFor(rank, now)
}

func (b *Bulkhead) roomFor(rank int, now time.Time) int {
	line := min(max(1, b.left.lately(now)), mostLine)
	ahead := func(rank int) int { return len(b.waiting[rank]) + b.coming[rank] }
	switch {
	case b.places == 0: // the share of all workers' has lapsed
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

// reserve keeps room for up to so many more of the rank, and returns for how many; bounded is false
// where there is room for all, of which none are noted. What is in hand already may use that room too.
func (b *Bulkhead) reserve(rank, most int, now time.Time) (n int, bounded bool) {
	if b.idle.Load() {
		return 0, false // so that routes for which nothing comes cost nothing
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

// pulled gives back what was reserved for a pull.
func (b *Bulkhead) pulled(rank, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pulls[rank] -= n
}

// come has the bulkhead know of so many more that come, or fewer.
func (b *Bulkhead) come(rank, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.comes(rank, n)
}

func (b *Bulkhead) comes(rank, n int) {
	b.coming[rank] += n
	b.changed()
}

// take takes so many places, or gives them back.
func (b *Bulkhead) take(n int) {
	b.taken += n
	b.changed()
}

// Expect has each of the bulkheads know of so many more of the priority that are on their way
// there, or fewer.
func Expect(bulkheads []*Bulkhead, p push.Priority, n int) {
	for _, b := range bulkheads {
		b.come(rankOf(p), n)
	}
}

// Fits reports whether there is room for one that comes. One that does not fit comes no longer.
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

// Room reports whether there is a place in each of the bulkheads at once.
func Room(bulkheads []*Bulkhead, p push.Priority) bool {
	return !slices.ContainsFunc(bulkheads, func(b *Bulkhead) bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.free(rankOf(p)) <= 0
	})
}

// Enter takes a place in each of the bulkheads for one of the priority where there is one at
// once, or in none.
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

// Acquire takes a place in each of the bulkheads for one of the priority, or in none: it returns the
// one that has given none. It waits for maxWait at most at each.
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
	return i < 0 // it was just given
}

// enter takes a place, or returns the one that is waited for. Where there is room for
// a rank nobody of it waits.
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

// Release gives a place in each of the bulkheads back.
func Release(bulkheads []*Bulkhead) {
	for _, b := range bulkheads {
		b.release()
	}
}

func (b *Bulkhead) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.old = max(0, b.old-1) // those who came first go first
	b.take(-1)
	b.left.add(time.Now())
	b.give()
}

// give gives the places that are free to those who wait for one.
func (b *Bulkhead) give() {
	for rank := b.next(); rank >= 0; rank = b.next() {
		p := b.waiting[rank][0]
		b.waiting[rank] = b.waiting[rank][1:]
		b.take(1)
		close(p.given)
	}
}

// next returns the rank whose first one gets a free place, -1 when none is free for
// those who wait.
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

// A flow counts what happens in a second. The zero value has counted nothing.
type flow struct {
	second    int64 // since 1970
	now, last int   // in that second, and in the one before
}

func (f *flow) add(at time.Time) {
	f.turn(at)
	f.now++
}

// lately is how many there were in the last second, or in this one where they are more.
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
