package worker

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/worker/clock"
	"github.com/pushpace/pushpace/worker/route"
)

// held is how many jobs of each shard each pause and closed route holds, as far as the shards
// answer. The zero value knows of none.
type held struct {
	mu     sync.Mutex
	shards map[int]map[string]store.Held // by their numbers, and then by what holds them
}

// read takes over what the shards have answered.
func (h *held) read(answers map[int]map[string]store.Held) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shards = answers
}

// left takes over what a shard has left of those that the name holds.
func (h *held) left(shard int, name string, left store.Held) {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := h.shards[shard]
	switch {
	case names == nil: // it does not answer
	case left.All() == 0:
		delete(names, name)
	default:
		names[name] = left
	}
}

// silent forgets a shard that does not answer, until it does.
func (h *held) silent(shard int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.shards, shard)
}

// of returns what each shard has of those that the name holds.
func (h *held) of(name string) map[int]store.Held {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := map[int]store.Held{}
	for shard, names := range h.shards {
		if its, some := names[name]; some {
			all[shard] = its
		}
	}
	return all
}

// names returns what holds jobs of which shards.
func (h *held) names() map[string][]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := map[string][]int{}
	for shard, names := range h.shards {
		for name := range names {
			all[name] = append(all[name], shard)
		}
	}
	return all
}

// shares divides n jobs among the shards that hold some: first those of the highest priority,
// of each shard as its part of these is. The order is that of the shards that get the next one
// where n does not divide evenly.
func shares(n int, held map[int]store.Held, order []int) map[int]int {
	all := map[int]int{}
	for rank := range len(store.Held{}) {
		of := int64(0)
		for _, h := range held {
			of += h[rank]
		}
		part := min(int64(n), of)
		seen, given := int64(0), int64(0)
		for _, shard := range order {
			if seen += held[shard][rank]; seen > 0 {
				upTo := (part*seen + of - 1) / of // rounded up: the first get the rest
				if upTo > given {
					all[shard] += int(upTo - given)
				}
				given = upTo
			}
		}
		n -= int(part)
	}
	return all
}

const (
	// heldEvery lies between two looks at what is held.
	heldEvery = time.Second
	// wakeAtOnce is how many held jobs come back at once.
	wakeAtOnce = 200
	// The next ones wait until so few are due on their queues, for a while at most: what was
	// not held is not to stand behind all that was.
	dueMost   = 1000
	duePause  = 25 * time.Millisecond
	duePauses = 20
)

// followHeld has what is held come back when nothing holds it any more, until ctx ends.
func (h *holds) followHeld(ctx context.Context) {
	away := clock.Trouble{Log: h.RedisLog, Begins: "what pauses and closed routes hold cannot be read: it comes back late", Ends: "what pauses and closed routes hold can be read again"}
	clock.Every(ctx, heldEvery, func() { away.Failing(ctx, h.readHeld(ctx)) })
}

// readHeld reads what is held, and wakes the jobs of the pauses that are over, and those of
// the routes.
func (h *holds) readHeld(ctx context.Context) error {
	answers, err := store.Each(ctx, h.records, func(ctx context.Context, at *store.Shard) (map[string]store.Held, error) {
		return at.Held(ctx)
	})
	if _, others := store.Unread(err); others != nil {
		return others
	}
	h.held.read(answers)
	in, names, now := h.inForce.Load(), h.held.names(), time.Now()
	for name, shards := range names {
		if in.Over(now, name) {
			for _, shard := range shards {
				h.resume(waking{name, shard}, func(ctx context.Context) error { return h.wake(ctx, shard, name, math.MaxInt, store.FirstHeld) })
			}
		}
	}
	for r := range h.routes.All() {
		count := int64(0)
		for _, its := range h.held.of(r.Name()) {
			count += its.All()
		}
		r.Holds(count)
		if len(names[r.Name()]) > 0 {
			h.resume(waking{r.Name(), allShards}, func(ctx context.Context) error { return h.returnHeld(ctx, r) })
		}
	}
	return err
}

// A waking is of what that name holds in one shard.
type waking struct {
	name  string
	shard int
}

const allShards = -1

// resume has wake run, unless it does.
func (h *holds) resume(what waking, wake func(context.Context) error) {
	if _, under := h.resuming.LoadOrStore(what, true); under {
		return
	}
	h.side.run(func(ctx context.Context) {
		defer h.resuming.Delete(what)
		if err := wake(ctx); err != nil && ctx.Err() == nil {
			h.RedisLog.LogAttrs(ctx, slog.LevelWarn, "what was held comes back late", slog.Any("error", err))
		}
	})
}

// returnHeld has what the route holds come back at its pace, the critical ones first,
// until there is nothing left. While it is closed, one is to show from time to time
// whether the provider works. A shard that refuses keeps its own back.
func (h *holds) returnHeld(ctx context.Context, r *route.Route) error {
	r.Returns()
	refused := map[int]error{}
	for {
		left := h.held.of(r.Name())
		maps.DeleteFunc(left, func(shard int, _ store.Held) bool { return refused[shard] != nil })
		if len(left) == 0 {
			return errors.Join(slices.Collect(maps.Values(refused))...)
		}
		order := slices.Collect(maps.Keys(left))
		rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		n, toSee := r.Returning(time.Now())
		which, some := store.FirstHeld, shares(n, left, order)
		if toSee {
			which, some = store.AnyHeld, map[int]int{order[0]: n}
		}
		for shard, n := range some {
			if err := h.wake(ctx, shard, r.Name(), n, which); err != nil {
				refused[shard] = err
			}
		}
		if err := clock.Sleep(ctx, returnTick); err != nil {
			return err
		}
	}
}

// returnTick is how often what was held is woken: so many at once as a process takes up
// between two.
const returnTick = 40 * time.Millisecond

// wake has so many of the shard's jobs that the name holds come back. Those that a worker
// has in hand stay held.
func (h *holds) wake(ctx context.Context, shard int, name string, n int, which store.Which) error {
	shards, err := h.records.All(ctx)
	if err != nil {
		return err
	}
	some := func(n int) (store.Woken, error) {
		near, cancel := store.InTime(ctx, len(shards))
		defer cancel()
		woken, err := shards[shard].WakeHeld(near, name, n, which)
		if err != nil {
			h.held.silent(shard)
			return woken, err
		}
		h.held.left(shard, name, woken.Left)
		return woken, nil
	}
	for n > 0 {
		woken, err := some(min(n, wakeAtOnce))
		if err != nil || woken.Gone == 0 {
			return err
		}
		n -= len(woken.IDs)
		for range duePauses {
			if woken.Due < dueMost {
				break
			}
			if err := clock.Sleep(ctx, duePause); err != nil {
				return err
			}
			if woken, err = some(0); err != nil {
				return err
			}
		}
	}
	return nil
}
