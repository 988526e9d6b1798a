package webpush

import (
	"crypto/sha256"
	"sync"
	"time"
)

// manyMismatches is how many different subscriptions have to be refused, with none taken,
// before the key is what is wrong; and they have to be for as long as mismatchWait. A worker
// that has just started may come upon so many old ones first.
const manyMismatches = 5

// A proof is what is known of the app's key at one service: whether the service has
// delivered with it, and which subscriptions it did not fit until then, since when. The zero
// value knows nothing. It is safe for concurrent use.
type proof struct {
	mu        sync.Mutex
	delivered bool
	refused   map[[sha256.Size]byte]struct{}
	since     time.Time
}

// works notes that the service has delivered with the key.
func (p *proof) works() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delivered, p.refused = true, nil
}

// proven reports whether the service has delivered with the key.
func (p *proof) proven() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delivered
}

// refuse notes that the key does not fit the subscription with the endpoint. It returns
// whether the key is known to work, and else whether it is known to be wrong.
func (p *proof) refuse(endpoint string, now time.Time) (delivered, wrong bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.delivered {
		return true, false
	}
	if p.refused == nil {
		p.refused, p.since = make(map[[sha256.Size]byte]struct{}, manyMismatches), now
	}
	if len(p.refused) < manyMismatches {
		p.refused[sha256.Sum256([]byte(endpoint))] = struct{}{}
	}
	return false, len(p.refused) == manyMismatches && now.Sub(p.since) >= mismatchWait
}
