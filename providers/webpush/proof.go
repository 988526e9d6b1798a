package webpush

import (
	"crypto/sha256"
	"sync"
	"time"
)

// manyMismatches is how many different subscriptions must be refused, and none accepted, before
// the key counts as wrong. The refusals must also span mismatchWait: a worker that has just
// started may first meet that many old subscriptions.
const manyMismatches = 5

// A proof records the state of the app's key at one service: whether the service has delivered with
// the key and, before its first delivery, the subscriptions with a different key and the time of
// the first mismatch. The zero value records nothing. It is safe for concurrent use.
type proof struct {
	mu        sync.Mutex
	delivered bool
	refused   map[[sha256.Size]byte]struct{}
	since     time.Time
}

// markDelivered records that the service has delivered with the key.
func (p *proof) markDelivered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delivered, p.refused = true, nil
}

// hasDelivered reports whether the service has delivered with the key.
func (p *proof) hasDelivered() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delivered
}

// addMismatch records that the endpoint's subscription was made with a different key. It returns
// whether the key is known to work, and otherwise whether it is known to be wrong.
func (p *proof) addMismatch(endpoint string, now time.Time) (delivered, wrong bool) {
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
