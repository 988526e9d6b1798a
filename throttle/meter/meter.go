// Package meter limits the combined rate of all workers for a key: a provider's quota, a
// campaign's throughput, an API token's requests.
//
// Start with Meter, or with Pools, which leases units ahead so that one round trip serves many
// pushes. Unlike a timeline's slots, units cannot be listed, reserved or cancelled, only given
// back; in return the cost of a Take does not depend on the number of units.
package meter

import (
	"context"
	"time"
)

// A Meter grants units of a key within a Spec that all its users share. Safe for concurrent use.
type Meter interface {
	// Take takes between Ask.Least and Ask.Most units of the key, as many as available. If fewer
	// than Least are available, it takes none. A negative Most gives back units that were certainly
	// not used. After an error the result is unknown: the units may have been taken.
	Take(ctx context.Context, key string, s Spec, a Ask) (Answer, error)
}

// An Ask is a request for units. The zero value takes no units and only reads.
type Ask struct {
	Least, Most int           // units, 0 to Most; a negative Most gives that many back
	Keep        int           // units that must remain for others
	Ahead       time.Duration // how far in advance units may be taken: prepayment
}

// An Answer is the result of an Ask.
type Answer struct {
	Units int // 0, or from Least to Most
	// Left is the time until the last of the units is covered, if they were taken in advance. If
	// Units is 0, Left is the time until Least units (at least one) are available, unless another
	// caller takes them first; with a ramp it is an upper bound.
	Left time.Duration
	Rule string // the rate that denies, in its text form
}
