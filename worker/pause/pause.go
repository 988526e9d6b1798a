// Package pause makes due notifications wait on their queues. Start with Store. There is one type, Pause,
// of three kinds. An operator's pause matches by app, platform and category. A provider's pause follows
// from the provider's answers and concerns one app's platform. Trouble is a failing provider as each
// worker reports it.
//
// A Store shares operators' pauses and providers' delays among all workers, on Redis's clock. Each worker
// reads them twice a second and uses that snapshot, InForce, until the next read. It applies its own
// provider's answers at once (see worker/route). Operators begin and end pauses through worker/control.
// Only workers share providers' delays.
//
// Paused jobs are parked on their queues: see store.ParkName.
package pause

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pushpace/pushpace/internal/base/fielderrors"
	"github.com/pushpace/pushpace/internal/base/names"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// A Pause makes notifications wait on the queue. It matches App, Platform and Category; an empty field
// matches any value. The zero value is an operator's pause of everything.
type Pause struct {
	Kind     Kind          `json:"kind"`
	App      string        `json:"app,omitempty"`
	Platform push.Platform `json:"platform,omitempty"`
	Category string        `json:"category,omitempty"`
	// Reason is the operator's text, at most 512 bytes, or one of the provider's reasons. Error is
	// the provider's last failure without device token, key or body.
	Reason string `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"`
	// By is the operator's name, at most 128 bytes. At is the pause's beginning on Redis's clock; zero if
	// no live worker has seen the pause.
	By string    `json:"by,omitempty"`
	At time.Time `json:"at,omitzero"`
	// Until is the pause's end; zero without an end. For an operator's pause it is on Redis's clock. For
	// trouble it is the next probe.
	Until time.Time `json:"until,omitzero"`
	// Waiting is the approximate number of notifications that wait for it, if counted.
	Waiting int `json:"waiting,omitempty"`
	// Workers is the number of workers that report the pause; 0 for a shared pause.
	Workers int `json:"workers,omitempty"`

	// Failures is how many of the Answers failed since a minute before the trouble; 0 if no live worker
	// saw them.
	Failures int `json:"failures,omitempty"`
	Answers  int `json:"answers,omitempty"`

	ends    time.Time // Until on the local clock; zero if not read from Redis
	endedBy string    // the operator that ended it
}

// Kind is the origin of a pause.
type Kind string

// The kinds.
const (
	Operator Kind = "operator"
	Provider Kind = "provider"
	Trouble  Kind = "trouble"
)

// Forever is longer than any notification waits, and short enough to add to an instant.
const Forever = 10 * 365 * 24 * time.Hour

// Left returns how long the pause lasts, on the local clock.
func (p *Pause) Left(now time.Time) time.Duration {
	if p.Until.IsZero() {
		return Forever
	}
	return cmp.Or(p.ends, p.Until).Sub(now)
}

// Route returns APP/PLATFORM.
func (p *Pause) Route() string { return p.App + "/" + string(p.Platform) }

// A selector is the app, platform and category that an operator's pause matches; "" for any.
type selector [3]string

func (p *Pause) selector() selector { return selector{p.App, string(p.Platform), p.Category} }

// Selector returns the selector's name in Redis and in the API.
func (p *Pause) Selector() string {
	text, _ := json.Marshal(p.selector()) // three strings never fail
	return string(text)
}

// Validate reports everything that is wrong with an operator's pause, as push.Faults.
func (p *Pause) Validate() error {
	var found push.Faults
	for _, name := range []struct{ field, value string }{{"/app", p.App}, {"/category", p.Category}} {
		if problem := names.Fault(name.value, push.MaxNameBytes); problem != "" {
			found.Add(name.field, "%s", problem)
		}
	}
	for _, text := range []struct {
		field, value string
		most         int
	}{{"/by", p.By, push.MaxNameBytes}, {"/reason", p.Reason, maxReasonBytes}} {
		if len(text.value) > text.most || !utf8.ValidString(text.value) || strings.ContainsFunc(text.value, unicode.IsControl) {
			found.Add(text.field, "must be UTF-8 without control characters, of at most %d bytes", text.most)
		}
	}
	if p.Platform != "" && !push.Known(p.Platform) {
		found.Add("/platform", "must be %s, or a push service such as %s", fielderrors.List(push.Platforms(), "or"), push.WebPushMozilla)
	}
	if year := p.Until.UTC().Year(); !p.Until.IsZero() && (year < 1 || year > 9999) { // JSON cannot hold it
		found.Add("/until", "must be in the years 1 to 9999")
	}
	return found.Err()
}

// An entry is a pause as stored in Redis. Its instants are Redis's, in Unix ms.
type entry struct {
	Pause
	Begun   int64  `json:"begun,omitempty,string"`
	Ends    int64  `json:"ends,string"` // 0 without end
	EndedBy string `json:"ended_by,omitempty"`
}

// entry returns the pause encoded for a script, without its beginning. It includes the end of an
// operator's pause only. The script sets the rest.
func (p Pause) entry(kind Kind) []byte {
	e := entry{Pause: p}
	if e.Kind = kind; kind == Operator && !p.Until.IsZero() {
		e.Ends = max(1, p.Until.UnixMilli())
	}
	e.At, e.Until = time.Time{}, time.Time{}
	text, _ := json.Marshal(e) // strings and numbers never fail
	return text
}

// pause returns the pause, and whether it is in force. now is Redis's clock at about the local
// instant asked.
func (e *entry) pause(now, asked time.Time) (p Pause, lasts bool) {
	p = e.Pause
	p.endedBy = e.EndedBy
	if e.Begun != 0 {
		p.At = time.UnixMilli(e.Begun).UTC()
	}
	if e.Ends == 0 {
		return p, true
	}
	p.Until = time.UnixMilli(e.Ends).UTC()
	p.ends = asked.Add(p.Until.Sub(now))
	return p, p.Until.After(now)
}

// Keeps reports whether the pause matches any target of the notification without a final outcome.
func (p *Pause) Keeps(n *push.Notification, outcomes []store.TargetOutcome) bool {
	if p.App != "" && p.App != n.App || p.Category != "" && p.Category != n.Category {
		return false
	}
	for i, t := range n.Targets {
		if i < len(outcomes) && !outcomes[i].Open() {
			continue
		}
		if p.Covers(t.Service()) {
			return true
		}
	}
	return false
}

// Covers reports whether the pause matches the push service. An operator's pause matches all services of
// its platform, a provider's only its own service.
func (p *Pause) Covers(service push.Platform) bool {
	if p.Kind == Operator {
		return push.Covers(p.Platform, service)
	}
	return p.Platform == service
}
