package webpush

import (
	"crypto/sha256"
	"sync"
)

// A proof is what is known of the app's key at one service: whether the service has
// delivered with it, and how many subscriptions it did not fit until then. The zero value
// knows nothing. It is safe for concurrent use.
type proof struct {
	mu        sync.Mutex
	delivered bool
	refused   map[[sha256.Size]byte]struct{}
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
// whether the key is known to work, and else how many it does not fit, up to
// manyMismatches.
func (p *proof) refuse(endpoint string) (delivered bool, refused int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.delivered {
		return true, 0
	}
	if p.refused == nil {
		p.refused = make(map[[sha256.Size]byte]struct{}, manyMismatches)
	}
	if len(p.refused) < manyMismatches {
		p.refused[sha256.Sum256([]byte(endpoint))] = struct{}{}
	}
	return false, len(p.refused)
}
