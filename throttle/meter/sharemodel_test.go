package meter

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// A part is a holder's part of a number; its lease ends at until, in µs.
type part struct{ number, held, wants, until int64 }

// parts are the parts of a number by holder: the model of share.lua.
type parts map[string]part

// renew applies a claim. It returns -1 if a claim with a higher number was applied before.
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
	} else if holds > 0 { // Redis has lost this holder, and maybe holders that have not renewed since
		holds = min(holds, room)
		granted = min(granted, holds)
	}
	own.held = max(granted, holds)
	if p[c.Holder] = own; own.held == 0 && own.wants == 0 {
		delete(p, c.Holder)
	}
	return granted
}

// fair returns the holder's fair share: an equal part of the rest, after the holders that
// want less.
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

// NewMemoryShares returns Shares on the model.
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
	return parsePart(m.numbers[key].renew(time.Now().UnixMicro(), c))
}
