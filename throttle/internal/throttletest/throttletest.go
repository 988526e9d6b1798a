// Package throttletest is the conformance suite of throttle.Planner. Run tests each promise of
// the interface on an implementation. A Harness declares the abilities that its implementation
// lacks; the suite skips the properties that need them, and logs their names.
package throttletest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// Horizon is the horizon of the limiters under test.
const Horizon = 24 * time.Hour

// An Ability is a requirement of a property beyond throttle.Planner.
type Ability string

// The abilities.
const (
	// SetClock is Instance.Advance: the test sets the clock.
	SetClock Ability = "set the clock"
	// SharePeers is Instance.Peer: two limiters share timelines.
	SharePeers Ability = "share timelines between limiters"
	// ListExpiry is Instance.Lasting: entries expire one by one.
	ListExpiry Ability = "list keys without an expiry"
)

// A Harness makes limiters of one implementation.
type Harness struct {
	// New returns a limiter with the horizon Horizon, which lives until the test ends. The limiter
	// may have any history, because the suite uses new users.
	New func(t testing.TB) Instance
	// Cannot lists the abilities that its instances lack.
	Cannot []Ability
	// Claims means that a denied call may still cause the denial of a concurrent call.
	Claims bool
	// Slow selects fewer and shorter histories.
	Slow bool
}

// An Instance is a limiter under test. A field for an ability in Harness.Cannot is nil.
type Instance struct {
	Limiter throttle.Planner
	// Peer is a second limiter on the same timelines, as in a second process.
	Peer throttle.Planner
	// Advance advances the clock; nil for real time.
	Advance func(time.Duration)
	// Lasting returns the keys without an expiry.
	Lasting func() []string
}

func (i Instance) abilities() []Ability {
	var able []Ability
	for ability, has := range map[Ability]bool{
		SetClock: i.Advance != nil, SharePeers: i.Peer != nil, ListExpiry: i.Lasting != nil,
	} {
		if has {
			able = append(able, ability)
		}
	}
	return able
}

// A property is one promise, and the abilities that its test needs.
type property struct {
	name  string
	needs []Ability
	show  func(*stage)
}

var properties = []property{
	{"limits hold on every history", nil, limitsHold},
	{"answers equal a plain list's", nil, answersOfAPlainList},
	{"limits reach back to the horizon", []Ability{SetClock}, limitsReachBack},
	{"remaining equals the list's count", nil, remainingIsCounted},
	{"a request without scopes is not recorded", nil, noScopesNoTrace},
	{"bad requests are refused", nil, badRequests},

	{"refusals leave nothing", nil, refusalsLeaveNothing},
	{"cancelling the last restores the state before", nil, cancelTheLast},
	{"cancelling an earlier one moves later ones up", nil, cancelAnEarlier},
	{"a cancel does not move due slots", []Ability{SetClock}, cancelLeavesTheDue},
	{"concurrent requests get separate slots", nil, slotsAskedAtOnce},
	{"the same notification holds one slot", nil, sameHoldsOneSlot},
	{"a cancel with KeepAdmission keeps the admission", []Ability{SetClock}, usedAdmissionStays},
	{"a repeated request keeps its position", []Ability{SetClock}, admissionIsKept},
	{"a replay moves the admission without a second one", []Ability{SetClock}, replayMoves},

	{"AcquireAll decides in order", []Ability{SetClock}, severalAtOnce},

	{"a full line rejects only new notifications", nil, fullLine},
	{"a slightly early job keeps its position", []Ability{SetClock}, brieflyShort},
	{"a replan returns the early bookings", nil, replanning},
	{"a raised general limit reaches every category", []Ability{SetClock}, raisedForEveryCategory},
	{"a removed limit releases its line", nil, liftedLimit},

	{"quiet hours hold until they end", nil, quietHours},

	{"concurrent calls are linearizable", nil, linearizable},
	{"calls of two limiters are linearizable", []Ability{SharePeers}, linearizablePeers},
	{"names are isolated", nil, namesDoNotMix},
	{"every key has an expiry", []Ability{ListExpiry}, everythingExpires},
}

// Run tests every property for which the harness has the abilities.
func Run(t *testing.T, h Harness) {
	able := h.New(t).abilities()
	for _, ability := range []Ability{SetClock, SharePeers, ListExpiry} {
		if slices.Contains(able, ability) == slices.Contains(h.Cannot, ability) {
			t.Fatalf("the harness must list %q in Cannot or offer it", ability)
		}
	}
	for _, p := range properties {
		var missing []string
		for _, need := range p.needs {
			if !slices.Contains(able, need) {
				missing = append(missing, string(need))
			}
		}
		if missing != nil {
			t.Logf("skipped: %s; the harness cannot %s", p.name, strings.Join(missing, ", "))
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.show(&stage{T: t, harness: h, Instance: h.New(t)})
		})
	}
}
