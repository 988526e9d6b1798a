package meter

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
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

// state returns what is known of the key.
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
