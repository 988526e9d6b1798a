package route

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pushpace/pushpace/push"
)

// A Bulkhead bounds the pushes in flight to one provider of one app, so that one
// that is slow or stalled holds up its own notifications only. Those who wait for a
// place get it by their priority, and by when they came; a few places are kept for
// critical ones, who then wait for nobody.
type Bulkhead struct {
	most int // places at most

	mu       sync.Mutex
	places   int                   // as many as there are now
	wanted   int                   // as many as were lately
	taken    []int64               // since when places are taken, in ns, the first first
	waiting  [len(ranked)][]*place // by rank, the first first
	passed   int                   // places given since to others than who has waited longest
	changed  int64                 // when a place was taken or left last, in ns
	meanHold int64                 // how long a place is taken, about, in ns
	coming   [len(ranked)]int      // by rank, those that are in hand and not yet here
	full     [len(ranked)]bool     // nothing more of the rank is to be pulled for it
}

// A place is one that is waited for.
type place struct {
	since int64         // in ns
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
	// keptShare is what share of the places is kept for critical ones.
	keptShare = 32
	// fairShare is of how many places that are waited for at least one goes to who
	// has waited longest, so that bulk ones move, however many critical ones come.
	fairShare = 8
	// leastWanted is what share of the places a share of all workers' is for at least, so
	// that what comes at once finds some.
	leastWanted = 8
)

func newBulkhead(places int) *Bulkhead {
	return &Bulkhead{most: places, places: places, changed: time.Now().UnixNano()}
}

// resize has there be so many places. Where more are taken, nobody comes in until fewer
// are.
func (b *Bulkhead) resize(places int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if places == b.places {
		return
	}
	b.places, b.changed = places, time.Now().UnixNano()
	b.give()
}

// wants is how many places are or may be taken until they are changed, and how many
// could be used: twice those taken, and all where some are waited for.
func (b *Bulkhead) wants() (holds, wants int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	holds, wants = max(b.places, len(b.taken)), max(1, b.most/leastWanted, 2*len(b.taken), b.wanted/2)
	if b.queued() > 0 || len(b.taken) >= b.places {
		wants = b.most
	}
	b.wanted = min(wants, b.most)
	return holds, b.wanted
}

// room reports whether one of the rank may come in.
func (b *Bulkhead) room(rank int) bool {
	places := b.places
	if rank > 0 {
		places -= places / keptShare
	}
	return len(b.taken) < places
}

// stalledFor is for how long there is no room for the rank and nothing has changed; 0
// when that is less than so long.
func (b *Bulkhead) stalledFor(rank int, now time.Time, least time.Duration) time.Duration {
	idle := time.Duration(now.UnixNano() - b.changed)
	if b.room(rank) || idle < least {
		return 0
	}
	return idle
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
	return len(b.taken), b.queued()
}

// queued is how many wait.
func (b *Bulkhead) queued() int {
	n := 0
	for _, of := range b.waiting {
		n += len(of)
	}
	return n
}

const (
	// pulledLine is up to how many wait for a place in a bulkhead jobs are pulled for it, and
	// maxWaiting how many may, as several pulls may be under way, besides maxCritical critical
	// ones, and maxWait for how long. The others go back to the queue for BusyDelay:
	// those that wait keep the provider busy so long.
	pulledLine  = 512
	maxWaiting  = 2 * pulledLine
	maxCritical = 256
	maxWait     = 2 * time.Second
	BusyDelay   = time.Second
	// Those that wait where nothing has changed for maxIdle go back too, critical ones
	// excepted, where its places are not usually taken so long.
	maxIdle = 500 * time.Millisecond
)

// InHand is how many notifications a process has in hand at most for a bulkhead with
// so many places.
func InHand(places int) int { return places + pulledLine + maxCritical }

// Busy reports whether a place in one of the bulkheads is not to be waited for now, since
// as many wait as may.
func Busy(bulkheads []*Bulkhead, p push.Priority) bool {
	return slices.ContainsFunc(bulkheads, func(b *Bulkhead) bool { return b.busy(rankOf(p)) })
}

func (b *Bulkhead) busy(rank int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	critical := len(b.waiting[0])
	if rank > 0 {
		return b.queued()-critical >= maxWaiting
	}
	return critical >= maxCritical
}

// Expect has each of the bulkheads know of so many more of the priority that are on their way
// there, or fewer.
func Expect(bulkheads []*Bulkhead, p push.Priority, n int) {
	for _, b := range bulkheads {
		b.mu.Lock()
		b.coming[rankOf(p)] += n
		b.mu.Unlock()
	}
}

// Room reports whether there is a place in each of the bulkheads at once.
func Room(bulkheads []*Bulkhead, p push.Priority) bool {
	for _, b := range bulkheads {
		if !b.hasRoom(rankOf(p)) {
			return false
		}
	}
	return true
}

func (b *Bulkhead) hasRoom(rank int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.room(rank)
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
	if !b.room(rank) {
		return false
	}
	b.take()
	return true
}

// take takes a place.
func (b *Bulkhead) take() {
	now := time.Now().UnixNano()
	b.taken, b.changed = append(b.taken, now), now
}

// Acquire takes a place in each of the bulkheads for one of the priority, or in none.
func Acquire(ctx context.Context, bulkheads []*Bulkhead, p push.Priority) bool {
	for i, b := range bulkheads {
		if !b.acquire(ctx, rankOf(p)) {
			Release(bulkheads[:i])
			return false
		}
	}
	return true
}

func (b *Bulkhead) acquire(ctx context.Context, rank int) bool {
	p := b.enter(rank)
	if p == nil {
		return true
	}
	ticker := time.NewTicker(maxIdle)
	defer ticker.Stop()
	for left := maxWait; left > 0; left -= maxIdle {
		select {
		case <-p.given:
			return true
		case <-ticker.C:
			if rank > 0 && b.stuck() {
				left = 0
			}
		case <-ctx.Done():
			left = 0
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting[rank], p)
	if i >= 0 {
		b.waiting[rank] = slices.Delete(b.waiting[rank], i, i+1)
	}
	return i < 0 // it was just given
}

// stuck reports whether nothing has moved for maxIdle, and for longer than usual.
func (b *Bulkhead) stuck() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	least := max(maxIdle, idleFactor*time.Duration(b.meanHold))
	return b.stalledFor(rankOf(push.Default), time.Now(), least) > 0
}

// enter takes a place, or returns the one that is waited for. Where there is room for
// a rank nobody of it waits.
func (b *Bulkhead) enter(rank int) *place {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.room(rank) {
		b.take()
		return nil
	}
	p := &place{time.Now().UnixNano(), make(chan struct{})}
	b.waiting[rank] = append(b.waiting[rank], p)
	return p
}

// Release gives a place in each of the bulkheads back.
func Release(bulkheads []*Bulkhead) {
	for _, b := range bulkheads {
		b.release(time.Now().UnixNano())
	}
}

// release gives the place back that was taken first, whosever it is: what counts
// is how long they are taken on the whole.
func (b *Bulkhead) release(now int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	const weight = 8
	b.meanHold += (now - b.taken[0] - b.meanHold) / weight
	b.taken, b.changed = b.taken[1:], now
	b.give()
}

// give gives the places that are free to those who wait for one.
func (b *Bulkhead) give() {
	for rank := b.next(); rank >= 0; rank = b.next() {
		p := b.waiting[rank][0]
		b.waiting[rank] = b.waiting[rank][1:]
		b.taken = append(b.taken, b.changed)
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
		if first < 0 && b.room(rank) {
			first = rank
		}
		if longest < 0 || of[0].since < b.waiting[longest][0].since {
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
