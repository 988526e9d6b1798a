package worker

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

// A RouteStatus is how one app's way to one platform is right now, as this
// worker knows it.
type RouteStatus struct {
	App      string        `json:"app"`
	Platform push.Platform `json:"platform"`
	// InFlight is how many notifications are being sent, Concurrency at most, and
	// Queued how many stand before it for want of a place.
	InFlight int `json:"in_flight"`
	Queued   int `json:"queued"`
	// Held is about how many this worker has put back because the route is closed.
	Held    int          `json:"held"`
	Breaker BreakerState `json:"breaker"`
	// Trouble is why the breaker is not closed; zero when it is, or this worker has
	// seen no failure.
	Trouble Trouble `json:"trouble,omitzero"`
	// Pause is the reason of the pause in force, empty for none, and Until when it
	// ends, zero when it has no end.
	Pause providers.Reason `json:"pause,omitempty"`
	Until time.Time        `json:"until,omitzero"`
	// Alone says that this worker alone pauses: no other bears it out.
	Alone bool `json:"alone,omitempty"`
	// Credential is the fingerprint of what the worker sends with, which says
	// whether two workers have the same, and CredentialEnds when it ends; zero when
	// it does not.
	Credential     string    `json:"credential,omitempty"`
	CredentialEnds time.Time `json:"credential_ends,omitzero"`
}

// A BreakerState is from a closed set.
type BreakerState string

// The states of a breaker. Every pause opens it, so that what comes after is
// probed first.
const (
	BreakerClosed   BreakerState = "closed"
	BreakerHalfOpen BreakerState = "half_open"
	BreakerOpen     BreakerState = "open"
)

// Routes answers how each route is, sorted by app and platform.
func (w *Worker) Routes() []RouteStatus {
	now := time.Now()
	var all []RouteStatus
	for r := range w.h.routes.all() {
		all = append(all, r.status(now))
	}
	slices.SortFunc(all, func(a, b RouteStatus) int {
		return cmp.Or(strings.Compare(a.App, b.App), strings.Compare(string(a.Platform), string(b.Platform)))
	})
	return all
}

func (r *route) status(now time.Time) RouteStatus {
	s := RouteStatus{
		App: r.app, Platform: r.platform, Credential: r.fingerprint(),
		InFlight: len(r.gate.places), Queued: int(r.gate.waiting.Load()), Held: r.queue.waiting(now),
	}
	if ending, ok := r.sender.(interface{ CredentialExpiry() (time.Time, bool) }); ok {
		if at, ends := ending.CredentialExpiry(); ends {
			s.CredentialEnds = at.UTC()
		}
	}
	s.Breaker, _ = r.breaker.state(now)
	if trouble := r.failures.last(); s.Breaker != BreakerClosed && trouble.Failures > 0 {
		s.Trouble = trouble
		s.Trouble.Since, s.Trouble.Next = trouble.Since.UTC(), now.Add(r.left(now)).UTC()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pause.left(now) > 0 {
		s.Pause, s.Until, s.Alone = r.pause.Reason, r.pause.Until.UTC(), r.pause.local
	}
	return s
}

// Waiting is how many notifications wait in the process for their instant.
func (w *Worker) Waiting() int { return int(w.h.waiting.Load()) }

// Holds is how many operators' pauses are in force, as this worker knows it.
func (w *Worker) Holds() int {
	n, now := 0, time.Now()
	for _, hold := range *w.h.holding.Load() {
		if hold.left(now) > 0 {
			n++
		}
	}
	return n
}

// Pulls reports whether the lanes get an answer when they ask Redis for jobs,
// which takes more than that it answers: rights, a primary, its scripts.
func (w *Worker) Pulls() bool { return w.h.queue.Pulls() }
