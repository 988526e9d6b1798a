package route

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

// A Status is how one app's way to one platform is right now, as this
// worker knows it.
type Status struct {
	App      string        `json:"app"`
	Platform push.Platform `json:"platform"`
	// InFlight is how many notifications are being sent, Concurrency at most, and
	// Queued how many stand before it for want of a place.
	InFlight int `json:"in_flight"`
	Queued   int `json:"queued"`
	// Share is how many of what all workers together may have in flight this one may;
	// nil where they are not bounded together.
	Share *int `json:"share,omitempty"`
	// Quota is that of all workers; zero when there is none.
	Quota QuotaStatus `json:"quota,omitzero"`
	// Latency and Answers tell of the pushes: how long they took, and how many of the
	// last 15 minutes' came to which end.
	Latency Latency                    `json:"latency,omitzero"`
	Answers map[providers.Reason]int64 `json:"answers,omitempty"`
	Breaker BreakerState               `json:"breaker"`
	// Trouble is why the breaker is not closed; zero when it is, or this worker has
	// seen no failure.
	Trouble Trouble `json:"trouble,omitzero"`
	// Pause is the reason of the pause in force, empty for none, and Until when it
	// ends, zero when it has no end.
	Pause providers.Reason `json:"pause,omitempty"`
	Until time.Time        `json:"until,omitzero"`
	// CredentialEnds is when that ends which the worker sends with; zero when it does not.
	CredentialEnds time.Time `json:"credential_ends,omitzero"`
}

// A BreakerState is from a closed set.
type BreakerState string

// The states of a breaker, which says the opposite of its route: that is open, trying or closed.
const (
	BreakerClosed   BreakerState = "closed"
	BreakerHalfOpen BreakerState = "half_open"
	BreakerOpen     BreakerState = "open"
)

// Statuses returns how each route is, sorted by app and platform.
func (rs *Routes) Statuses() []Status {
	now := time.Now()
	var all []Status
	for r := range rs.All() {
		s := r.status(now, r.state.known(now))
		r.answers.tell(now, &s)
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Status) int {
		return cmp.Or(strings.Compare(a.App, b.App), strings.Compare(string(a.Platform), string(b.Platform)))
	})
	return all
}

func (r *Route) status(now time.Time, k known) Status {
	s := Status{
		App: r.App, Platform: r.Platform, Quota: QuotaOf(r.Quota), Breaker: k.state, Pause: k.closing.reason,
	}
	s.InFlight, s.Queued = r.Bulkhead.load()
	if r.share != nil {
		s.Share = new(r.Bulkhead.size())
	}
	if ending, ok := r.Sender.(interface{ CredentialExpiry() (time.Time, bool) }); ok {
		if at, ends := ending.CredentialExpiry(); ends {
			s.CredentialEnds = at.UTC()
		}
	}
	if s.Pause != "" {
		s.Until = k.closing.until.UTC()
	}
	if trouble := r.evidence.trouble(); s.Breaker != BreakerClosed && trouble.Failures > 0 {
		s.Trouble = trouble
		s.Trouble.Since, s.Trouble.Next = trouble.Since.UTC(), now.Add(k.left).UTC()
	}
	return s
}

// Severity orders routes by what is worth knowing.
func (s *Status) Severity() int {
	switch {
	case s.Breaker != BreakerClosed || s.Pause != "":
		return 2
	case s.InFlight+s.Queued > 0:
		return 1
	}
	return 0
}
