package meter

import (
	"context"
	"crypto/rand"
	"errors"
	"time"
)

// Shares divides numbers among holders. Each number has a key, and each holder has a part until
// it gives the part back or its lease ends. The sum of the parts never exceeds the number. Safe
// for concurrent use.
//
// The parts are fair: a holder gets all it wants, or an equal part of the rest. A part shrinks
// only when its holder confirms that it uses no more. A new holder waits for this confirmation, so
// that parts never overlap.
type Shares interface {
	// Renew leases the holder a part of the number under the key. After an error the part is
	// unknown: it may be the new part or the previous one.
	Renew(ctx context.Context, key string, c Claim) (part int, err error)
}

// A Claim is a holder's request for a part.
type Claim struct {
	Holder string // a new name after each start
	// Number increases with each claim of the holder. A claim that arrives after one with a higher
	// Number has no effect.
	Number int64
	Limit  int           // the divided number
	Holds  int           // the part that the holder may use until the answer
	Wants  int           // the part that the holder could use; 0 with Holds 0 gives the part back
	Life   time.Duration // of the lease
}

// parsePart converts the reply to a claim.
func parsePart(part int64) (int, error) {
	if part < 0 {
		return 0, errStaleClaim
	}
	return int(part), nil
}

var errStaleClaim = errors.New("meter: a later claim was answered before this one")

// A Lease is one holder's part of a number, across renewals. It is not safe for concurrent use.
type Lease struct {
	shares Shares
	key    string
	claim  Claim
	within time.Duration // timeout of a renewal
}

// LeaseEvery is the renewal interval of a Lease. A part is reserved for four intervals and used for
// nine tenths of that: pushes still in flight are then aborted, and have ended before another
// holder gets the part. So other holders get a dead holder's part within four seconds, and one
// missed or slow renewal costs nothing.
const LeaseEvery = 750 * time.Millisecond

// NewLease returns a lease of a part of the number under the key; the part is 0 until Renew.
func NewLease(shares Shares, key string, limit int) *Lease {
	return &Lease{shares: shares, key: key, claim: Claim{Holder: rand.Text(), Limit: limit, Life: 4 * LeaseEvery}, within: LeaseEvery}
}

// Renew requests a part of the size wants, while the holder uses at most holds until Renew returns.
// At the time until, by the monotonic clock, the holder must have stopped using the part. After an
// error the previous part remains valid until its own end.
func (l *Lease) Renew(ctx context.Context, holds, wants int) (part int, until time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.within)
	defer cancel()
	l.claim.Number++
	l.claim.Holds, l.claim.Wants = holds, wants
	asked := time.Now()
	part, err = l.shares.Renew(ctx, l.key, l.claim)
	return part, asked.Add(l.claim.Life * 9 / 10), err
}

// Release gives the part back. Nothing of it may be in use.
func (l *Lease) Release(ctx context.Context) error {
	_, _, err := l.Renew(ctx, 0, 0)
	return err
}
