package meter

import (
	"context"
	"crypto/rand"
	"errors"
	"time"
)

// Shares divides numbers: of each, which has a key, holders have a part until they give
// it back or their lease ends, and the parts of all together are never more than the
// number. Safe for concurrent use.
//
// A part is fair: as many as the holder wants, or as everybody gets who wants more than
// there is. It shrinks when the holder says that it uses no more than it was told, so
// that somebody who comes waits for that, and the parts never overlap.
type Shares interface {
	// Renew leases the holder a part of the number under the key. An error means that
	// nothing is known: the part may be what was asked for, or what it was.
	Renew(ctx context.Context, key string, c Claim) (part int, err error)
}

// A Claim is what a holder says of its part.
type Claim struct {
	Holder string // one that has started again is another one
	// Number is higher with each of the holder's claims. One that comes after a later
	// one is without effect: it says what was.
	Number int64
	Limit  int           // the number that is divided
	Holds  int           // what the holder may be using until it is answered
	Wants  int           // what it could use; with nothing held either it gives its part back
	Life   time.Duration // of the lease
}

// answered is what a claim was answered with.
func answered(part int64) (int, error) {
	if part < 0 {
		return 0, errAnswered
	}
	return int(part), nil
}

var errAnswered = errors.New("meter: the claim was answered before, and the answer was lost")

// A Lease is one holder's part of a number, from one renewal to the next. It is one
// goroutine's.
type Lease struct {
	shares Shares
	key    string
	claim  Claim
	within time.Duration // how long an answer is waited for
}

// LeaseEvery is how often a Lease is to be renewed. A part is held four times as long for one who
// does not renew it, and used for nine tenths of that: what is cut off then is over everywhere
// before the part is another's. So what a dead one had is another's within four seconds, and a
// Redis that misses one renewal, or is slow, costs nothing.
const LeaseEvery = 750 * time.Millisecond

// NewLease returns a lease of nothing yet, of the number under the key.
func NewLease(shares Shares, key string, limit int) *Lease {
	return &Lease{shares: shares, key: key, claim: Claim{Holder: rand.Text(), Limit: limit, Life: 4 * LeaseEvery}, within: LeaseEvery}
}

// Renew asks for as much as is wanted, while the holder uses no more than holds until it
// returns. Of the part that it returns nothing may be in use any more at that instant,
// by the monotonic clock: after an error the one before stands until its own.
func (l *Lease) Renew(ctx context.Context, holds, wants int) (part int, until time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.within)
	defer cancel()
	l.claim.Number++
	l.claim.Holds, l.claim.Wants = holds, wants
	asked := time.Now()
	part, err = l.shares.Renew(ctx, l.key, l.claim)
	return part, asked.Add(l.claim.Life * 9 / 10), err
}

// Release gives the part back, of which nothing is in use.
func (l *Lease) Release(ctx context.Context) error {
	_, _, err := l.Renew(ctx, 0, 0)
	return err
}
