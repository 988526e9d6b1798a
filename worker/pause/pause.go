// Package pause is what keeps notifications on the queue although they are due. There
// is one type, Pause, of three kinds: an operator's, which matches by app, platform
// and category; a provider's, of one app's platform, which its answers bring about;
// and trouble, of which each worker tells.
//
// A Store shares an operator's and the delays that providers ask for among all workers, on
// Redis's clock. Each worker reads what is in force twice a second, and keeps to that
// snapshot, InForce, between two reads; what it learns from a provider it keeps to at once
// (see worker/route). Anybody may read; operators begin and end theirs by worker/control, and
// only the workers share providers'.
//
// What a pause keeps is parked on its queue: see store.ParkName.
package pause

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pushpace/pushpace/internal/base/faults"
	"github.com/pushpace/pushpace/internal/base/names"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// A Pause keeps notifications on the queue. App, Platform and Category are what it
// matches, each of them any when it is empty, so that the zero value is an
// operator's of everything.
type Pause struct {
	Kind     Kind          `json:"kind"`
	App      string        `json:"app,omitempty"`
	Platform push.Platform `json:"platform,omitempty"`
	Category string        `json:"category,omitempty"`
	// Reason is the operator's words, at most 512 bytes, or one of the provider's
	// reasons, and Error what the provider's last failure was, without token, key or
	// body.
	Reason string `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"`
	// By is the operator who has begun it, at most 128 bytes, and At when it began, on
	// Redis's clock; zero when no worker that is alive has seen that.
	By string    `json:"by,omitempty"`
	At time.Time `json:"at,omitzero"`
	// Until is when it ends, an operator's on Redis's clock, or of trouble when the
	// provider is looked at next; zero when it has no end.
	Until time.Time `json:"until,omitzero"`
	// Waiting is about how many notifications wait for it, where those were counted.
	Waiting int `json:"waiting,omitempty"`
	// Workers is how many say so; 0 for a pause that all share.
	Workers int `json:"workers,omitempty"`

	// Failures of Answers failed, in the minute before the trouble and since; 0 where no
	// worker that is alive has seen that.
	Failures int `json:"failures,omitempty"`
	Answers  int `json:"answers,omitempty"`

	ends    time.Time // Until on the local clock, where it was read
	endedBy string    // the operator who has ended it
}

// Kind is whose pause it is.
type Kind string

// The kinds.
const (
	Operator Kind = "operator"
	Provider Kind = "provider"
	Trouble  Kind = "trouble"
)

// Forever is longer than any notification waits, and short enough to be added to an instant.
const Forever = 10 * 365 * 24 * time.Hour

// Left is how long the pause lasts, on the local clock.
func (p *Pause) Left(now time.Time) time.Duration {
	if p.Until.IsZero() {
		return Forever
	}
	return cmp.Or(p.ends, p.Until).Sub(now)
}

// Route is APP/PLATFORM.
func (p *Pause) Route() string { return p.App + "/" + string(p.Platform) }

// A selector is what an operator's pause matches: the app, the platform and the
// category, "" for any.
type selector [3]string

func (p *Pause) selector() selector { return selector{p.App, string(p.Platform), p.Category} }

// Selector names what the pause matches, in Redis and in the API.
func (p *Pause) Selector() string {
	text, _ := json.Marshal(p.selector()) // of three strings, which never fails
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
		found.Add("/platform", "must be %s, or a push service such as %s", faults.List(push.Platforms(), "or"), push.WebPushMozilla)
	}
	if year := p.Until.UTC().Year(); !p.Until.IsZero() && (year < 1 || year > 9999) { // which JSON cannot hold
		found.Add("/until", "must be in the years 1 to 9999")
	}
	return found.Err()
}

// An entry is an operator's or a provider's pause as Redis has it. Its instants are
// Redis's, in Unix ms.
type entry struct {
	Pause
	Begun   int64  `json:"begun,omitempty,string"`
	Ends    int64  `json:"ends,string"` // 0 when it has no end
	EndedBy string `json:"ended_by,omitempty"`
}

// entry is the pause as it is handed to Redis, which says when it begins. Only an
// operator's knows when it ends.
func (p Pause) entry(kind Kind) []byte {
	e := entry{Pause: p}
	if e.Kind = kind; kind == Operator && !p.Until.IsZero() {
		e.Ends = max(1, p.Until.UnixMilli())
	}
	e.At, e.Until = time.Time{}, time.Time{}
	text, _ := json.Marshal(e) // of strings and numbers, which never fails
	return text
}

// pause returns the pause, and reports whether it lasts on Redis's clock, which
// showed now at about the local instant asked.
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

// Keeps reports whether the pause keeps any of the notification's targets
// that are left from being sent to.
func (p *Pause) Keeps(n *push.Notification, outcomes []store.TargetOutcome) bool {
	if p.App != "" && p.App != n.App || p.Category != "" && p.Category != n.Category {
		return false
	}
	for i, t := range n.Targets {
		if i < len(outcomes) && !outcomes[i].Open() {
			continue
		}
		if push.Covers(p.Platform, t.Service()) {
			return true
		}
	}
	return false
}
