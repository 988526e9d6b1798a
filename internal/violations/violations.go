// Package violations finds the received pushes that exceeded their user's limits. It shares no
// arithmetic with the limiter under test.
package violations

import (
	"cmp"
	"slices"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// A Push is one notification at the instant at which its user received it.
type Push struct {
	App, User, Category string
	At                  time.Time
	Passes              bool // exempt from quiet hours, because it is critical
	// Zone is the user's time zone; nil means the zone of users without one.
	Zone *time.Location
}

// A Violation is one push that came too soon.
type Violation struct {
	App, User string
	// Scope is throttle.General or the category of the violated limit; Rule is "gap", the rate as
	// written, or "quiet_hours".
	Scope, Rule string
	// At is when the push came, Early how much later it should have come.
	At    time.Time
	Early time.Duration
}

// InForce are the policies that may have been in force for a push: several if they changed just
// before it. An empty Category means that the category has no limits of its own.
type InForce struct {
	General, Category []throttle.Policy
}

// exempt reports whether the push may not have been checked at all.
func (f *InForce) exempt() bool {
	return slices.ContainsFunc(f.Category, func(p throttle.Policy) bool { return p.Exempt })
}

// Find returns every push that came sooner than the policies allow, by more than the tolerance. The
// general policy applies to a user's pushes of an app that are not exempt, and each category's
// policy to the pushes of that category. Find sorts pushes.
func Find(pushes []Push, general throttle.Policy, categories map[string]throttle.Policy, tolerance time.Duration) []Violation {
	all := []throttle.Policy{general}
	own := make(map[string][]throttle.Policy, len(categories))
	for name, policy := range categories {
		own[name] = []throttle.Policy{policy}
	}
	return FindInForce(pushes, func(p Push) InForce { return InForce{all, own[p.Category]} }, tolerance)
}

// FindInForce is Find for policies that changed: a push violates them only if each policy that
// may have been in force forbids it.
func FindInForce(pushes []Push, inForce func(Push) InForce, tolerance time.Duration) []Violation {
	type timeline struct{ app, user, scope string }
	type arrival struct {
		at       time.Time
		policies []throttle.Policy
	}
	// the general scope has a name here that no category can have
	const general = "\x00"
	timelines := map[timeline][]arrival{}
	var found []Violation
	slices.SortFunc(pushes, func(a, b Push) int { return a.At.Compare(b.At) })
	for _, p := range pushes {
		policies := inForce(p)
		if policies.exempt() {
			continue
		}
		if v := inQuietHours(p, policies); v.Early > tolerance {
			found = append(found, v)
		}
		all := timeline{p.App, p.User, general}
		timelines[all] = append(timelines[all], arrival{p.At, policies.General})
		if len(policies.Category) > 0 {
			category := timeline{p.App, p.User, p.Category}
			timelines[category] = append(timelines[category], arrival{p.At, policies.Category})
		}
	}
	for of, arrivals := range timelines {
		scope := of.scope
		if scope == general {
			scope = throttle.General
		}
		for i := range arrivals {
			var mildest []Violation
			for k, policy := range arrivals[i].policies {
				var broken []Violation
				check := func(rule string, count int, period time.Duration) {
					if count > i {
						return
					}
					if early := period - arrivals[i].at.Sub(arrivals[i-count].at); early > tolerance {
						broken = append(broken, Violation{of.app, of.user, scope, rule, arrivals[i].at, early})
					}
				}
				check("gap", 1, policy.MinGap)
				for _, r := range policy.Rates {
					check(r.String(), r.Count, r.Period)
				}
				if k == 0 || worst(broken) < worst(mildest) {
					mildest = broken
				}
			}
			found = append(found, mildest...)
		}
	}
	slices.SortFunc(found, func(a, b Violation) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.User, b.User), cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Rule, b.Rule))
	})
	return found
}

// worst returns the largest Early of the violations.
func worst(broken []Violation) time.Duration {
	most := time.Duration(0)
	for _, v := range broken {
		most = max(most, v.Early)
	}
	return most
}
