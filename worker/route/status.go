package route

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

// A Status is a worker's view of one route.
type Status struct {
	App      string        `json:"app"`
	Platform push.Platform `json:"platform"`
	// InFlight is the number of pushes in flight, at most Concurrency. Queued is how many jobs wait for a
	// permit.
	InFlight int `json:"in_flight"`
	Queued   int `json:"queued"`
	// Share is this worker's part of the pushes that all workers may have in flight; nil without
	// a bound.
	Share *int `json:"share,omitempty"`
	// Quota is the quota shared by all workers; zero without one.
	Quota QuotaStatus `json:"quota,omitzero"`
	// Latency covers the last one to two minutes. Answers counts the outcomes of the last 15 minutes.
	Latency Latency                    `json:"latency,omitzero"`
	Answers map[providers.Reason]int64 `json:"answers,omitempty"`
	State   State                      `json:"state"`
	// Trouble is the failure that closed the route; zero if it is open or this worker has seen
	// no failure.
	Trouble Trouble `json:"trouble,omitzero"`
	// Pause is the reason of the pause in force, empty for none. Until is the pause's end, zero without a
	// pause.
	Pause providers.Reason `json:"pause,omitempty"`
	Until time.Time        `json:"until,omitzero"`
	// CredentialEnds is when the credentials in use expire; zero if they do not.
	CredentialEnds time.Time `json:"credential_ends,omitzero"`
}

// A State is a route's state in the view of one worker.
type State string

// The states. A closed route sends nothing until an instant; a trying route sends one push at a time to
// see whether the provider works.
const (
	Open   State = "open"
	Closed State = "closed"
	Trying State = "trying"
)

// Statuses returns the status of each route, sorted by app and platform.
func (rs *Routes) Statuses() []Status {
	now := time.Now()
	var all []Status
	for r := range rs.All() {
		s := r.status(now, r.state.view(now))
		r.answers.addTo(now, &s)
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Status) int {
		return cmp.Or(strings.Compare(a.App, b.App), strings.Compare(string(a.Platform), string(b.Platform)))
	})
	return all
}

func (r *Route) status(now time.Time, k stateView) Status {
	s := Status{
		App: r.App, Platform: r.Platform, Quota: QuotaOf(r.Quota), State: k.state, Pause: k.closing.reason,
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
	if trouble := r.evidence.trouble(); s.State != Open && trouble.Failures > 0 {
		s.Trouble = trouble
		s.Trouble.Since, s.Trouble.Next = trouble.Since.UTC(), now.Add(k.left).UTC()
	}
	return s
}

// Severity orders routes by urgency, the most urgent highest.
func (s *Status) Severity() int {
	switch {
	case s.State != Open || s.Pause != "":
		return 2
	case s.InFlight+s.Queued > 0:
		return 1
	}
	return 0
}
