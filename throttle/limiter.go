// Package throttle paces what each user receives. A Limiter admits a
// notification when all of its user's limits allow it at that instant, and
// gives each one that it denies a slot of its own to come back at.
//
// Redis is the Limiter that programs use, Memory one without a store, and Outage
// stands before either and says what happens while the store is away. The limits come
// with each Request; throttle/limits says which are in force. The package knows
// users, IDs and instants, and nothing of notifications or queues. All limiters are
// safe for concurrent use, by any number of processes on one Redis.
//
// Admissions are law, slots are advice:
//   - What is granted fits among the admissions, by the clock of the store, whatever
//     waits and whoever crashed.
//   - A slot says when to ask again. Were all lost, order and punctuality would suffer,
//     and no limit.
//   - A line is a category's notifications of one zone. They go in the order in which they
//     asked. What is new respects every slot in its scopes.
//   - A notification holds one slot, however often it asks.
//   - What quiet hours hold is not let through in them, and has no slot there.
//
// claim.go asks where this process does not know that anybody waits; slots.lua does all else.
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

// General is the name of the scope that carries a user's general limits.
const General = "all"

// A Limiter keeps the timelines of users, for those who ask whether to send. It is safe
// for concurrent use, and its answers are the same whichever process asks. Its store has a
// time-out of the limiter's own for each answer, so that no call hangs on one that accepts
// and never answers; how often a call asks depends on what it has to do.
//
// In any order of calls, any N+1 admissions of a user and scope span at least
// the rate's period, and any two at least the gap, to within a millisecond.
type Limiter interface {
	// Acquire asks for an admission at this instant, or a slot to wait for. The same
	// notification holds one slot, however often it asks: after a Deferred, the
	// caller asks again at Decision.At. One that was let through and asks again goes
	// before those who wait: at once if what was sent allows it, else it has the first slot
	// of its line.
	// An error means that nothing is known; it is safe to ask again.
	Acquire(context.Context, Request) (Decision, error)
	// Cancel gives back what the notification holds, admission or slot, and moves those
	// forward who wait behind it; of one that is Used, the slot only. Cancelling twice, or
	// what holds nothing, does nothing.
	Cancel(context.Context, Request) (Placed, error)
}

// A Planner is a Limiter for those who also look at, or change, how a user's notifications
// wait: workers, and what operators use. Its calls fail as those of a Limiter do.
type Planner interface {
	Limiter
	// AcquireAll is Acquire for several notifications with the user, the category and
	// the scopes of the first one, in their order, at one instant. It decides of the
	// first or of more, and answers as many decisions: the others ask again.
	AcquireAll(context.Context, []Request) ([]Decision, error)
	// CancelAll is Cancel for several notifications of the user and category of the first one.
	CancelAll(context.Context, []Request) (Placed, error)
	// Replan places lines of one user again, each by the scopes and the zone of its
	// request; ID is not used. Whom nothing limits any more waits no longer: these are all
	// in Placed.Early, with the instant of the call. Those overdue by more than a second stay
	// where they are. Of a Leaver a line is placed once a second at most.
	Replan(context.Context, []Request) (Placed, error)
	// Told clears the marks of bookings whose jobs were woken. No later Placed.Early names
	// them.
	Told(context.Context, Request, []Booking) error
	// Timeline answers what is known of the user in the request's scopes.
	Timeline(context.Context, Request) (Timeline, error)
}

// Placed is what a call has done to those who wait, and what is left to its caller.
type Placed struct {
	// Early have slots that are earlier than their jobs know: the user's first three, and
	// those due within two seconds, at most 64; and at most 64 that are overdue by an hour,
	// whose jobs may be no more. After a Replan also all whom nothing limits any more. The
	// caller makes their jobs due at their slots, and then calls Told.
	Early []Booking
	// Others are the user's other lines that wait, if the call may change anything for them. The
	// caller places each again once, by a Replan with the line's own limits: as a Leaver after
	// Acquire and Cancel, without it after a change of limits. It ignores the Others of that
	// Replan.
	Others []Line
	// After is how long to wait before a Replan of the call's lines as a Leaver, because they
	// were placed less than a second ago; 0 for no Replan.
	After time.Duration
}

// Any reports whether anything is left to do.
func (p Placed) Any() bool { return len(p.Early) > 0 || len(p.Others) > 0 || p.After > 0 }

// A Line is a category's notifications of one zone.
type Line struct {
	Category string
	Zone     string // as time.LoadLocation takes it; empty where none is named or it matters not
}

// A Scope is a set of limits with a timeline of its own: the user's general
// limits, or a category's.
type Scope struct {
	Name   string // General, or the category
	Policy Policy
}

// A Request asks for the admission of one notification.
type Request struct {
	// App and User say whose timeline it is. App may be empty.
	App, User string
	// ID of the notification.
	ID string
	// Scopes whose limits must all agree, at most two: the general one first,
	// then the category's. Without the general one, no general limits hold for the
	// user, whatever waits. A scope with an unlimited policy still keeps its
	// timeline; a request without scopes is granted at once and leaves no trace.
	Scopes []Scope
	// Category of the notification, where no scope names it. Those that wait of a
	// category go in the order in which they asked.
	Category string
	// Zone is the one by whose clocks quiet hours hold for the notification; nil for that of
	// the policies' Night. One of zone.Load or time.UTC.
	Zone *time.Location
	// Passes has the notification pass quiet hours: in them it goes as soon as the admissions
	// allow, and is charged. If they do not, it is Deferred there without a slot, unless it
	// has one.
	Passes bool
	// Horizon is how far ahead a slot may lie. A denied request whose slot would
	// be further is Refused and holds nothing; with 0 every denied one is.
	Horizon time.Duration
	// MaxBooked is how many of the user's notifications of the category may hold a slot, at
	// most MaxEntries; 0 means that. A denied one beyond is Rejected, or
	// if it is Kept Deferred without a slot.
	MaxBooked int
	// Kept says that a full line does not reject it: it is critical, or was accepted into the
	// line before.
	Kept bool
	// Elder is the ID of another one of the same user and category that it has taken the
	// place of: it takes over its slot, the earlier one where both have one.
	Elder string
	// Books has it get a slot even where it might go now: its caller cannot send it yet.
	Books bool
	// Leaver tells Replan that limits are as they were, and somebody has left.
	Leaver bool
	// Used tells Cancel that the notification was sent, or may have been: its
	// admission stays.
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
		return errors.New("throttle: the request names no user")
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

// validateID is validate for the calls that concern one notification.
func (r *Request) validateID() error {
	if r.ID == "" {
		return errors.New("throttle: the request names no notification ID")
	}
	return r.validate()
}

// validateAll is validateID for those that are decided of together.
func validateAll(all []Request) error {
	if len(all) == 0 {
		return errors.New("throttle: there is no request")
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
		if r.App != first.App || r.User != first.User || r.class() != first.class() || seen[r.ID] {
			return errors.New("throttle: the requests are of several users or categories, or name a notification twice")
		}
		seen[r.ID] = true
	}
	return nil
}

// validateLines is validate for lines that are placed together.
func validateLines(all []Request) error {
	if len(all) == 0 {
		return errors.New("throttle: there is no request")
	}
	for i := range all {
		r, first := &all[i], &all[0]
		if err := r.validate(); err != nil {
			return err
		}
		if r.App != first.App || r.User != first.User {
			return errors.New("throttle: the requests are of several users")
		}
	}
	return nil
}

// policies returns the general limits and the category's, nil for none.
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

// class is the category whose order the notification keeps.
func (r *Request) class() string {
	for _, s := range r.Scopes {
		if s.Name != General {
			return s.Name
		}
	}
	return r.Category
}

// remaining is what the request's rates still admit, each with so many admissions in
// the window that ends now.
func (r *Request) remaining(counts []int) []Remaining {
	left := make([]Remaining, 0, len(counts))
	for _, s := range r.Scopes {
		for _, rate := range s.Policy.Rates {
			left = append(left, Remaining{s.Name, rate, max(0, rate.Count-counts[len(left)])})
		}
	}
	return left
}

// mostBooked is how many may hold a slot.
func (r *Request) mostBooked() int { return cmp.Or(r.MaxBooked, MaxEntries) }

// A Status is what became of a request.
type Status uint8

// The statuses. The zero Status is none of them.
const (
	// Granted: send at Decision.At.
	Granted Status = iota + 1
	// Deferred: ask again at Decision.At.
	Deferred
	// Refused: the slot, Decision.At, lies beyond the request's horizon.
	Refused
	// Rejected: as many of its category, or of its user, wait as may. It holds nothing.
	Rejected
	slotless // Deferred, with Decision.Slotless
)

// String returns the status as it is written in logs.
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
	// At is the instant to send at (Granted), to ask again at (Deferred), or
	// that was too late (Refused), on the limiter's clock, which for Redis is
	// the server's.
	At time.Time
	// Now is the instant of the decision, on the same clock.
	Now time.Time
	// Left is the time from when Acquire returns until At: at least 0, in whole microseconds. It
	// does not depend on this machine's clock. The time that the answer took is subtracted, by
	// the limiter's clock as this process has learned it. For 1.5 s after that clock was set
	// back, or became another node's, too much may be subtracted, at most what the answer took.
	Left time.Duration
	// Slot is the slot that the notification held before this call; zero for
	// none. At may be later: the job was late, or a limit was lowered.
	Slot time.Time
	// Slotless says of a Deferred one that it holds no slot: as many wait as may, or it passes
	// the quiet hours it is in, and the limits do not. At is when to ask again. In an outage
	// (Unchecked) nothing has a slot, and Slotless is false.
	Slotless bool
	// Scope and Rule name the limit that sets At when it is in the future: Rule
	// is "gap", a rate as it is written ("10/1m"), or "quiet_hours".
	Scope string
	Rule  string
	// Quiet is the end of the quiet hours that hold the notification at the instant of the
	// decision; zero when none do.
	Quiet time.Time
	// Remaining is what each rate still admits at the instant of the decision,
	// this admission taken off, when the request asked for a report.
	Remaining []Remaining
	// Placed is what the call has done to those who wait; of several decisions the first
	// one has it.
	Placed
	// Unchecked says that the store was away and nothing was checked or charged, but quiet
	// hours: Granted is the operator's choice (see Open), and At the local clock's.
	Unchecked bool
}

// grantedAt is the decision to send at once.
func grantedAt(now time.Time) Decision { return Decision{Status: Granted, At: now, Now: now} }

// Remaining is what one rate still admits.
type Remaining struct {
	Scope string
	Rate  Rate
	Count int
}

// A Booking is the slot of a notification that waits.
type Booking struct {
	ID    string    `json:"id"`
	Scope string    `json:"scope"` // the scope whose limits it waits for, in a Timeline
	Slot  time.Time `json:"slot"`
	// Rule of the scope that lets it be no earlier, in a Timeline; empty when that is
	// not known.
	Rule string `json:"rule,omitempty"`
	// After is the entry that the rule counts from, in a Timeline: that of the rate 10/1m
	// is the tenth before this one.
	After Entry `json:"after,omitzero"`
	// Category is the request's, in a Timeline, when this is one of those who wait of it.
	Category string `json:"category,omitempty"`

	member string // in the set of slots
}

// An Entry is an admission, a notification that was let through, or a slot.
type Entry struct {
	// ID of the notification; of an admission, an ID longer than 26 bytes that is not a
	// UUID appears as a digest.
	ID string    `json:"id"`
	At time.Time `json:"at"`
}

// A Timeline is what is known of a user, oldest first, at most
// MaxEntries of each kind (the newest admissions, the nearest bookings).
type Timeline struct {
	Now        time.Time          `json:"now"`
	Admissions map[string][]Entry `json:"admissions"` // by scope
	Bookings   []Booking          `json:"bookings"`
	// Quiet is what the quiet hours Hours close to the request in the days ahead, by the clocks
	// of its Zone. Empty where nothing is closed.
	Quiet []quiet.Interval `json:"-"`
	Hours quiet.Hours      `json:"-"`
	Zone  string           `json:"-"`

	marks map[string]*view // what counts, by scope
}

// Decision.Rule when the minimum gap decides, and where quiet hours end at the slot.
const (
	GapRule   = "gap"
	QuietRule = "quiet_hours"
)

// A rule is a policy's limit as arithmetic sees it: n admissions in any window
// of the period. The minimum gap is the rule of 1 in its length.
type rule struct {
	n      int
	period int64 // µs
}

// appendRules appends the policy's rules, the gap first even when it is 0.
func (p Policy) appendRules(rules []rule) []rule {
	rules = append(rules, rule{1, p.MinGap.Microseconds()})
	for _, r := range p.Rates {
		rules = append(rules, rule{r.Count, r.Period.Microseconds()})
	}
	return rules
}

// ruleName names the i-th of the policy's rules.
func (p Policy) ruleName(i int) string {
	if i == 0 {
		return GapRule
	}
	return p.Rates[i-1].String()
}

// margin is what lies between two booked slots beyond what the policy asks
// for, in µs, so that a job that comes a hair late does not deny its successor:
// a fiftieth of the mean distance the policy allows, at most 3 ms.
func (p Policy) margin() int64 {
	mean := p.MinGap.Microseconds()
	for _, r := range p.Rates {
		mean = max(mean, r.Period.Microseconds()/int64(r.Count))
	}
	return max(1, min(3000, mean/50))
}

// ErrUnavailable is wrapped by the errors of a limiter whose store does not answer.
var ErrUnavailable = errors.New("throttle: the limits' store does not answer")

// sortBookings orders bookings by slot, then scope and ID.
func sortBookings(bookings []Booking) {
	slices.SortFunc(bookings, func(a, b Booking) int {
		return cmp.Or(a.Slot.Compare(b.Slot), cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.ID, b.ID))
	})
}
