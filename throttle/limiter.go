// Package throttle limits how often each user receives notifications. A Limiter grants a
// notification if all limits of its user allow it now. Otherwise it returns a slot: the time at
// which the caller asks again.
//
// Start with Redis. Memory is a Limiter for tests, and Outage adds the behaviour while the store
// is unavailable. Each Request carries its limits; throttle/limits finds the ones in force. All
// limiters are safe for concurrent use by any number of processes on one Redis. claim.go is the
// fast path while no waiting notification is known; slots.lua does everything else.
//
// A program of your own needs only New with Options, Request with Scope, Policy and Rate, Decision
// with Status, and Limiter. Planner, with its FollowUp, Line and Plan, serves package worker, which
// wakes waiting jobs; Timeline and Window serve displays.
//
// The rules:
//   - Admissions are binding. A grant fits among the admissions by the store's clock, even if
//     notifications wait or processes crashed.
//   - Slots are advice. If all slots are lost, order and punctuality suffer, and no limit is
//     exceeded.
//   - A line is the queue of a category's notifications of one zone, in the order of their first
//     requests. A new notification respects every slot in its scopes.
//   - A notification holds at most one slot, however often it asks.
//   - A notification is neither granted in quiet hours that hold it, nor has it a slot there.
package throttle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/pushpace/pushpace/throttle/quiet"
)

// General is the name of the scope of a user's general limits.
const General = "all"

// A Limiter keeps the users' timelines. It is safe for concurrent use and gives every process the
// same answers. Each round trip to its store has a timeout of the limiter's own, so that no call
// hangs; the number of round trips depends on the call.
//
// In any order of calls, any N+1 admissions of a user and scope span at least the rate's period,
// and any two at least the gap, to within a millisecond.
type Limiter interface {
	// Acquire asks for an admission now, or for a slot. A notification holds at most one slot:
	// after Deferred, the caller asks again at Decision.At. A notification that was granted
	// before is first in its line: it is granted at once if the admissions allow it, and
	// otherwise gets the line's first slot. After an error the result is unknown, and a second
	// call is safe.
	Acquire(context.Context, Request) (Decision, error)
	// Cancel removes the notification's admission or slot and moves up the notifications behind
	// it. With Request.Used, Cancel keeps the admission. Without anything to remove, Cancel does
	// nothing.
	Cancel(context.Context, Request) (FollowUp, error)
}

// A Planner is a Limiter that also reads and reschedules a user's waiting notifications, for
// workers and operators. After an error a second call is safe.
type Planner interface {
	Limiter
	// AcquireAll is Acquire for several notifications at one instant, in their order. All
	// requests have the user, category and scopes of the first. AcquireAll may decide only the
	// first n, at least one, and returns n decisions; the caller asks again for the rest.
	AcquireAll(context.Context, []Request) ([]Decision, error)
	// CancelAll is Cancel for several notifications of one user and category.
	CancelAll(context.Context, []Request) (FollowUp, error)
	// Replan reschedules lines of one user, each by the scopes and the zone of its request; it
	// ignores the request's ID. All notifications without any limit leave their line and are in
	// FollowUp.Early, with the instant of the call. Slots overdue by more than a second stay
	// unchanged. With Request.AfterLeave, Replan reschedules a line at most once a second.
	Replan(context.Context, []Request) (FollowUp, error)
	// ClearEarly removes the early marks of bookings after the caller has woken their jobs. Later calls
	// do not return them in FollowUp.Early.
	ClearEarly(context.Context, Request, []Booking) error
	// Timeline returns the user's admissions and slots in the request's scopes.
	Timeline(context.Context, Request) (Timeline, error)
}

// FollowUp is the work that a call leaves to its caller.
type FollowUp struct {
	// Early are bookings with a slot before the due time of their job: the user's first three,
	// and all due within two seconds, at most 64. Also at most 64 bookings overdue by an hour, as
	// their jobs may no longer exist, and after a Replan all notifications without any limit. The
	// caller makes the jobs due at their slots and then calls ClearEarly.
	Early []Booking
	// Others are the user's other lines with waiting notifications, if the call may affect them.
	// The caller reschedules each line once by a Replan with the line's own limits, and ignores
	// the Others of that Replan. It sets AfterLeave after Acquire and Cancel, but not after a
	// change of limits.
	Others []Line
	// After is the delay before a Replan of the call's lines with AfterLeave, because they were
	// rescheduled less than a second ago; 0 for no Replan.
	After time.Duration
}

// Any reports whether p is not empty.
func (p FollowUp) Any() bool { return len(p.Early) > 0 || len(p.Others) > 0 || p.After > 0 }

// A Line is the queue of a category's notifications of one zone.
type Line struct {
	Category string
	Zone     string // a name for time.LoadLocation; empty without a zone or without quiet hours
}

// A Scope is a set of limits with its own timeline: the user's general limits, or a category's.
type Scope struct {
	Name   string // General, or the category
	Policy Policy
}

// A Request asks for the admission of one notification.
type Request struct {
	// App and User identify the timeline. App may be empty.
	App, User string
	// ID of the notification.
	ID string
	// Scopes are the limits that must all allow the notification, at most two: the general one
	// first, then the category's. Without the general one, the general limits do not apply. A
	// scope with an unlimited policy still records admissions; a request without scopes is
	// granted at once and records nothing.
	Scopes []Scope
	// Category of the notification, if no scope names it. Waiting notifications of a category
	// keep the order of their first requests.
	Category string
	// Zone is the time zone of the notification's quiet hours, from zone.Load or time.UTC; nil
	// for the zone of the policies' Night.
	Zone *time.Location
	// IgnoreQuiet exempts the notification from quiet hours. During them it is granted as soon as the
	// admissions allow it, and is charged. If they allow it only later in the same hours, it is
	// Deferred without a slot, unless it already holds one.
	IgnoreQuiet bool
	// Horizon is how far ahead a slot may be. A denied request with a later slot is Refused and
	// holds nothing; with 0 every denied request is Refused.
	Horizon time.Duration
	// MaxBooked limits how many of the user's notifications of the category hold a slot, at most
	// MaxEntries; 0 means MaxEntries. All categories together hold at most twice as many. Beyond
	// that, a denied request is Rejected, or with NeverReject Deferred without a slot.
	MaxBooked int
	// NeverReject means that a full line does not reject the notification: it is critical, or was
	// accepted into the line before.
	NeverReject bool
	// Replaces is the ID of the notification that this one replaces, of the same user and
	// category. The new notification takes over the old one's slot, or keeps an earlier own one.
	Replaces string
	// SlotOnly requests a slot even if the limits allow the notification now, because the caller
	// cannot send it yet.
	SlotOnly bool
	// AfterLeave means that the limits are unchanged, and a notification has left the line.
	AfterLeave bool
	// Used means that the notification was sent or may have been: Cancel keeps its admission.
	Used bool
	// Report asks for Decision.Remaining. It costs a ZCOUNT for each rate.
	Report bool
}

var errScopes = errors.New("throttle: a request takes at most two scopes, the general one first")

func (r *Request) validate() error {
	switch {
	case len(r.Scopes) > 2,
		len(r.Scopes) == 2 && (r.Scopes[0].Name != General || r.Scopes[1].Name == General):
		return errScopes
	case r.User == "":
		return errors.New("throttle: the request has no user")
	case r.Horizon < 0:
		return errors.New("throttle: the request's horizon is negative")
	case r.MaxBooked < 0 || r.MaxBooked > MaxEntries:
		return fmt.Errorf("throttle: the request's MaxBooked is %d; want 0 to %d", r.MaxBooked, MaxEntries)
	case !utf8.ValidString(r.ID):
		return errors.New("throttle: the notification's ID is not UTF-8")
	}
	for _, s := range r.Scopes {
		if len(s.Policy.Rates) > MaxRates {
			return fmt.Errorf("throttle: scope %q has %d rates; at most %d are allowed", s.Name, len(s.Policy.Rates), MaxRates)
		}
		for _, rate := range s.Policy.Rates {
			if fault := rate.tooLarge(); fault != "" {
				return fmt.Errorf("throttle: scope %q: %s", s.Name, fault)
			}
		}
	}
	return nil
}

// validateID is validate for calls about one notification.
func (r *Request) validateID() error {
	if r.ID == "" {
		return errors.New("throttle: the request has no notification ID")
	}
	return r.validate()
}

// validateAll is validateID for requests that are decided together.
func validateAll(all []Request) error {
	if len(all) == 0 {
		return errors.New("throttle: the list of requests is empty")
	}
	if len(all) == 1 {
		return all[0].validateID()
	}
	seen := make(map[string]bool, len(all))
	for i := range all {
		r, first := &all[i], &all[0]
		if err := r.validateID(); err != nil {
			return err
		}
		if r.App != first.App || r.User != first.User || r.category() != first.category() || seen[r.ID] {
			return errors.New("throttle: the requests must have the same user and category, and different notification IDs")
		}
		seen[r.ID] = true
	}
	return nil
}

// validateLines is validate for lines that are rescheduled together.
func validateLines(all []Request) error {
	if len(all) == 0 {
		return errors.New("throttle: the list of requests is empty")
	}
	for i := range all {
		r, first := &all[i], &all[0]
		if err := r.validate(); err != nil {
			return err
		}
		if r.App != first.App || r.User != first.User {
			return errors.New("throttle: the requests must have the same user")
		}
	}
	return nil
}

// policies returns the policies of the general and of the category's scope; nil without that scope.
func (r *Request) policies() (general, own *Policy) {
	for i := range r.Scopes {
		if s := &r.Scopes[i]; s.Name == General {
			general = &s.Policy
		} else {
			own = &s.Policy
		}
	}
	return general, own
}

// category returns the category of the notification's line.
func (r *Request) category() string {
	for _, s := range r.Scopes {
		if s.Name != General {
			return s.Name
		}
	}
	return r.Category
}

// remaining returns how many more admissions the request's rates allow. counts are the admissions
// in each rate's window that ends now.
func (r *Request) remaining(counts []int) []Remaining {
	left := make([]Remaining, 0, len(counts))
	for _, s := range r.Scopes {
		for _, rate := range s.Policy.Rates {
			left = append(left, Remaining{s.Name, rate, max(0, rate.Count-counts[len(left)])})
		}
	}
	return left
}

// maxBooked returns the largest number of slots of the category.
func (r *Request) maxBooked() int { return cmp.Or(r.MaxBooked, MaxEntries) }

// A Status is the result of a request.
type Status uint8

// The statuses. The zero Status is invalid.
const (
	// Granted: send at Decision.At.
	Granted Status = iota + 1
	// Deferred: ask again at Decision.At.
	Deferred
	// Refused: the slot, Decision.At, lies beyond the request's horizon.
	Refused
	// Rejected: the category or the user has as many slots as allowed. The request holds nothing.
	Rejected
	slotless // Deferred, with Decision.Slotless
)

// String returns the status in lower case.
func (s Status) String() string {
	switch s {
	case Granted:
		return "granted"
	case Deferred:
		return "deferred"
	case Refused:
		return "refused"
	case Rejected:
		return "rejected"
	}
	return "unknown"
}

// A Decision is the answer to a request.
type Decision struct {
	Status Status
	// At is the time to send (Granted), the time to ask again (Deferred), or the slot beyond the
	// horizon (Refused). It is on the limiter's clock, for Redis the server's.
	At time.Time
	// Now is the instant of the decision, on the same clock.
	Now time.Time
	// Left is the time from Acquire's return until At, at least 0, in whole microseconds. It does
	// not depend on this machine's clock: the limiter subtracts the time since the decision by
	// its estimate of the store's clock. For 1.5 s after that clock was set back, or a new node
	// took over, the limiter may subtract too much, at most the call's round-trip time.
	Left time.Duration
	// Slot is the slot that the notification held before this call; zero for none. At may be
	// later than Slot: the job was late, or a limit was lowered.
	Slot time.Time
	// Slotless means that a Deferred notification holds no slot: the line is full, or the limits
	// deny a notification that is exempt from the current quiet hours. At is the time to ask again.
	// In an outage (Unchecked) nothing has a slot, and Slotless is false.
	Slotless bool
	// Scope and Rule name the limit that sets At if At is in the future: Rule is "gap", a rate in
	// its text form ("10/1m"), or "quiet_hours".
	Scope string
	Rule  string
	// Quiet is the end of the quiet hours that hold the notification at the time of the decision;
	// zero for none.
	Quiet time.Time
	// Remaining is how many more admissions each rate allows after this one, if Request.Report is
	// set.
	Remaining []Remaining
	// ClockBack is how far the user's newest admission lies after Now: the store's clock was set
	// back, as by a failover, and the limits count until it has caught up. Zero for less than a
	// second, and if the user was known to wait, so that the admissions were not read.
	ClockBack time.Duration
	// FollowUp is the work that the call leaves to its caller; of several decisions only the first
	// one has it.
	FollowUp
	// Unchecked means that the store was unreachable. Nothing was charged, and only quiet hours
	// were checked. Granted is then the operator's choice (see Open), and At is on the local
	// clock.
	Unchecked bool
}

// grantedAt returns the decision to send now.
func grantedAt(now time.Time) Decision { return Decision{Status: Granted, At: now, Now: now} }

// Remaining is how many more admissions one rate allows.
type Remaining struct {
	Scope string
	Rate  Rate
	Count int
}

// A Booking is the slot of a waiting notification.
type Booking struct {
	ID    string    `json:"id"`
	Scope string    `json:"scope"` // in a Timeline: the scope whose limit sets the slot
	Slot  time.Time `json:"slot"`
	// Rule is the limit of the scope that sets the slot, in a Timeline; empty if unknown.
	Rule string `json:"rule,omitempty"`
	// After is the entry that the rule counts from, in a Timeline: for the rate 10/1m the tenth
	// entry before this one.
	After Entry `json:"after,omitzero"`
	// Category is set in a Timeline if the booking is of the request's category.
	Category string `json:"category,omitempty"`

	member string // the member of the slots key
}

// An Entry is an admission (a granted notification) or a slot.
type Entry struct {
	// ID of the notification. An admission shows a digest in the place of an ID that is longer
	// than 26 bytes and not a UUID.
	ID string    `json:"id"`
	At time.Time `json:"at"`
}

// A Timeline is the state of one user, oldest first, at most MaxEntries of each kind (the newest
// admissions, the nearest bookings).
type Timeline struct {
	Now        time.Time          `json:"now"`
	Admissions map[string][]Entry `json:"admissions"` // by scope
	Bookings   []Booking          `json:"bookings"`
	// Quiet are the intervals of the coming days in which the quiet hours Hours hold the request,
	// by the clock of Zone. Empty for none.
	Quiet []quiet.Interval `json:"-"`
	Hours quiet.Hours      `json:"-"`
	Zone  string           `json:"-"`

	marks map[string]*view // the entries that count in each scope
}

// Values of Decision.Rule besides rates: the minimum gap, and a slot at the end of quiet hours.
const (
	GapRule   = "gap"
	QuietRule = "quiet_hours"
)

// A rule is one limit of a policy: at most n admissions in any window of the period. The minimum
// gap is the rule with n = 1.
type rule struct {
	n      int
	period int64 // µs
}

// appendRules appends the policy's rules, first the gap, even if it is 0.
func (p Policy) appendRules(rules []rule) []rule {
	rules = append(rules, rule{1, p.MinGap.Microseconds()})
	for _, r := range p.Rates {
		rules = append(rules, rule{r.Count, r.Period.Microseconds()})
	}
	return rules
}

// ruleName returns the name of the i-th rule.
func (p Policy) ruleName(i int) string {
	if i == 0 {
		return GapRule
	}
	return p.Rates[i-1].String()
}

// margin returns the extra distance between two slots, in µs, so that a slightly late job does
// not deny the next one: 1/50 of the mean distance that the policy allows, at most 3 ms.
func (p Policy) margin() int64 {
	mean := p.MinGap.Microseconds()
	for _, r := range p.Rates {
		mean = max(mean, r.Period.Microseconds()/int64(r.Count))
	}
	return max(1, min(3000, mean/50))
}

// ErrUnavailable is wrapped by the errors of a limiter while its store is unavailable.
var ErrUnavailable = errors.New("throttle: the limits' store does not answer")

// sortBookings orders bookings by slot, then scope and ID.
func sortBookings(bookings []Booking) {
	slices.SortFunc(bookings, func(a, b Booking) int {
		return cmp.Or(a.Slot.Compare(b.Slot), cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.ID, b.ID))
	})
}
