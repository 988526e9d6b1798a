// Package pause is what keeps notifications on the queue although they are due. There
// is one type, Pause, of three kinds: an operator's, which matches by app, platform
// and category; a provider's, of one app's platform, which its answers bring about;
// and trouble, which is not shared but told of by each worker.
//
// A Store shares the first two among all workers, on Redis's clock. Each worker reads
// what is in force twice a second, and keeps to that snapshot, InForce, between two
// reads; what it has begun itself it keeps to at once (see worker/route). Anybody may
// read; operators begin and end theirs by worker/control, and only the workers share
// and end providers'.
//
// The jobs that an operator's pause keeps are remembered, so that they come back when
// it ends: whoever is the first to see that pops them. A job that is popped and not
// woken is popped again.
package pause

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

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
	// Waiting is about how many notifications the workers have put back for it: for
	// a provider's.
	Waiting int `json:"waiting,omitempty"`
	// Workers is how many say so, when each of them does alone.
	Workers int `json:"workers,omitempty"`

	// Level counts the provider's pauses for misconfiguration in a row, this one
	// included.
	Level int `json:"-"`
	// Credential is the fingerprint of what a provider's is about: it does not concern
	// who has other credentials. "" concerns everyone.
	Credential string `json:"-"`
	// Claim is the host whose workers alone say so, which nobody else believes; ""
	// when it is borne out.
	Claim string `json:"-"`

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

// forever is longer than anything is waited for.
const forever = 10 * 365 * 24 * time.Hour

// Left is how long the pause lasts, on the local clock.
func (p *Pause) Left(now time.Time) time.Duration {
	if p.Until.IsZero() {
		return forever
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
	var faults push.Faults
	for _, text := range []struct {
		field, value string
		most         int
	}{
		{"/app", p.App, push.MaxNameBytes}, {"/category", p.Category, push.MaxNameBytes},
		{"/by", p.By, push.MaxNameBytes}, {"/reason", p.Reason, maxReasonBytes},
	} {
		if len(text.value) > text.most || !utf8.ValidString(text.value) || strings.ContainsFunc(text.value, unicode.IsControl) {
			faults = append(faults, push.Fault{Field: text.field, Problem: fmt.Sprintf("must be UTF-8 without control characters, of at most %d bytes", text.most)})
		}
	}
	if p.Platform != "" && p.Platform != push.APNs && p.Platform != push.FCM {
		faults = append(faults, push.Fault{Field: "/platform", Problem: fmt.Sprintf("must be %s or %s", push.APNs, push.FCM)})
	}
	if len(faults) > 0 {
		return faults
	}
	return nil
}

var errEntry = errors.New("an entry is not one of this version")

// readOperator reads an entry of the operators' hash, and when it ends, in Unix ms; 0
// when it has no end.
func readOperator(field, value string) (p Pause, ends int64, err error) {
	var at selector
	parts := strings.SplitN(value, " ", 3)
	if err := json.Unmarshal([]byte(field), (*[3]string)(&at)); err != nil || len(parts) != 3 {
		return p, 0, errEntry
	}
	ends, err1 := strconv.ParseInt(parts[0], 10, 64)
	begun, err2 := strconv.ParseInt(parts[1], 10, 64)
	var n note
	notes := json.NewDecoder(strings.NewReader(parts[2]))
	for err1 == nil && notes.More() {
		err1 = notes.Decode(&n)
	}
	if err1 != nil || err2 != nil {
		return p, 0, errEntry
	}
	p = Pause{
		Kind: Operator, App: at[0], Platform: push.Platform(at[1]), Category: at[2], By: n.By, Reason: n.Reason, endedBy: n.EndedBy,
		At: time.UnixMilli(begun).UTC(),
	}
	if ends != 0 {
		p.Until = time.UnixMilli(ends).UTC()
	}
	return p, ends, nil
}

// borneOut is in the place of a claim.
const borneOut = "*"

// readProvider is readOperator for the providers' hash.
func readProvider(field, value string) (p Pause, ends int64, err error) {
	parts := strings.SplitN(value, " ", 5)
	if len(parts) != 5 || !p.readField(field) {
		return p, 0, errEntry
	}
	ends, err1 := strconv.ParseInt(parts[0], 10, 64)
	level, err2 := strconv.Atoi(parts[1])
	if err1 != nil || err2 != nil {
		return p, 0, errEntry
	}
	p.Kind, p.Level, p.Claim, p.Reason, p.Error = Provider, level, parts[2], parts[3], parts[4]
	if p.Claim == borneOut {
		p.Claim = ""
	}
	return p, ends, nil
}

// lasts notes when the pause ends, in Unix ms of Redis's clock, which showed now at
// about the local instant asked, and reports whether it does not yet.
func (p *Pause) lasts(ends, now int64, asked time.Time) bool {
	if ends != 0 {
		p.ends = asked.Add(time.Duration(ends-now) * time.Millisecond)
	}
	return ends == 0 || ends > now
}

// field is the provider's pause's in the hash.
func (p *Pause) field() string {
	if p.Credential == "" {
		return p.Route()
	}
	return p.Route() + "/" + p.Credential
}

// readField reads what field has written. No fingerprint is a platform's name.
func (p *Pause) readField(field string) bool {
	route, last, ok := cutLast(field)
	if platform := push.Platform(last); platform != push.APNs && platform != push.FCM {
		p.Credential = last
		route, last, ok = cutLast(route)
	}
	p.App, p.Platform = route, push.Platform(last)
	return ok
}

func cutLast(s string) (before, last string, ok bool) {
	if i := strings.LastIndexByte(s, '/'); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

// String says what waits, for what and until when: "fcm of shop, in trouble
// since 13:28:54: FCM answered 503 UNAVAILABLE; next look 13:29:27".
func (p Pause) String() string {
	const clock = time.TimeOnly
	b := new(strings.Builder)
	switch {
	case p.Platform != "" && p.App != "":
		fmt.Fprintf(b, "%s of %s", p.Platform, p.App)
	case p.Platform != "" || p.App != "":
		b.WriteString(cmp.Or(string(p.Platform), p.App))
	}
	if p.Category != "" {
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString("category " + p.Category)
	}
	if b.Len() == 0 {
		b.WriteString("everything")
	}
	cause := cmp.Or(p.Error, p.Reason)
	switch p.Kind {
	case Operator:
		fmt.Fprintf(b, ", paused by %s at %s", cmp.Or(p.By, "an operator"), p.At.UTC().Format(time.RFC3339))
	case Provider:
		b.WriteString(", paused")
	case Trouble:
		b.WriteString(", in trouble")
	}
	if p.Kind != Operator && !p.At.IsZero() {
		b.WriteString(" since " + p.At.UTC().Format(clock))
	}
	if cause != "" {
		b.WriteString(": " + cause)
	}
	switch {
	case p.Until.IsZero():
	case p.Kind == Trouble:
		b.WriteString("; next look " + p.Until.UTC().Format(clock))
	default:
		b.WriteString("; until " + p.Until.UTC().Format(time.RFC3339))
	}
	return b.String()
}

// Keeps reports whether the pause keeps any of the notification's targets
// that are left from being sent to.
func (p *Pause) Keeps(n *push.Notification, outcomes []push.TargetOutcome) bool {
	if p.App != "" && p.App != n.App || p.Category != "" && p.Category != n.Category {
		return false
	}
	for i, t := range n.Targets {
		if i < len(outcomes) && !outcomes[i].Open() {
			continue
		}
		if p.Platform == "" || p.Platform == t.Platform {
			return true
		}
	}
	return false
}
