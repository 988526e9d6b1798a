package worker

import (
	"context"
	"time"

	"github.com/pushpace/pushpace/push"
)

// A Standing pause keeps notifications on the queue: an operator's Hold, or a
// provider's Pause. "" is any.
type Standing struct {
	Kind     StandingKind  `json:"kind"`
	App      string        `json:"app,omitempty"`
	Platform push.Platform `json:"platform,omitempty"`
	Category string        `json:"category,omitempty"`
	// Reason is the operator's words, or one of the provider's reasons.
	Reason string `json:"reason,omitempty"`
	// By is the operator who has begun it, and At when.
	By string    `json:"by,omitempty"`
	At time.Time `json:"at,omitzero"`
	// Until is when it ends; zero when it has no end.
	Until time.Time `json:"until,omitzero"`
}

// StandingKind is whose pause it is.
type StandingKind string

// The kinds.
const (
	ByOperator StandingKind = "operator"
	ByProvider StandingKind = "provider"
)

// Pause has all workers hold what the hold matches: see Holds.Begin.
func (c *Control) Pause(ctx context.Context, hold Hold) error { return c.holds.Begin(ctx, hold) }

// Resume ends the hold that matches the same: see Holds.End.
func (c *Control) Resume(ctx context.Context, hold Hold) (bool, error) { return c.holds.End(ctx, hold) }

// Pauses answers the pauses in force, the operators' first.
func (c *Control) Pauses(ctx context.Context) ([]Standing, error) {
	all, err := c.pauses.read(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]Standing, 0, len(all.holds)+len(all.pauses))
	for _, h := range all.holds {
		list = append(list, Standing{ByOperator, h.App, h.Platform, h.Category, h.Reason, h.By, h.At, h.Until})
	}
	for _, p := range all.pauses {
		list = append(list, Standing{ByProvider, p.App, p.Platform, "", string(p.Reason), "", time.Time{}, p.Until.UTC()})
	}
	return list, nil
}

// matches reports whether the pause keeps any of the notification's targets
// that are left from being sent to.
func (s *Standing) matches(n *push.Notification, outcomes []push.TargetOutcome) bool {
	if s.App != "" && s.App != n.App || s.Category != "" && s.Category != n.Category {
		return false
	}
	for i, t := range n.Targets {
		if i < len(outcomes) {
			if o := resumed(outcomes[i]); !o.open() {
				continue
			}
		}
		if s.Platform == "" || s.Platform == t.Platform {
			return true
		}
	}
	return false
}
