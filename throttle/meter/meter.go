// Package meter limits what all workers do together by a few numbers kept for each
// key: a provider's quota, a campaign's throughput, an API token's requests.
//
// A meter knows no notification by name. What it admitted cannot be listed, booked or
// cancelled as a user's timeline can, only given back; in return its cost does not
// depend on how much it admits.
package meter

import (
	"context"
	"time"
)

// A Meter admits units of a key, of which all its users share what the spec allows.
// Safe for concurrent use.
type Meter interface {
	// Take takes between Ask.Least and Ask.Most units of the key, as many as there
	// are, or none. What certainly was not used is given back by a negative Most. An
	// error means that nothing is known: the units may have been taken.
	Take(ctx context.Context, key string, s Spec, a Ask) (Answer, error)
}

// An Ask is how much is wanted. The zero value only looks.
type Ask struct {
	Least, Most int           // units, 0 to Most; a negative Most gives so many back
	Keep        int           // units that have to stay for others
	Ahead       time.Duration // how far ahead what is taken may be covered: prepayment
}

// An Answer is what was taken.
type Answer struct {
	Units int // 0, or from Least to Most
	// Left is when the last of them is covered where they were taken ahead. Where none
	// were taken it is when Least would be, at least one, if nobody else asks; with a
	// ramp at the latest.
	Left time.Duration
	Rule string // of several rates the one that denies, as it is written
}
