// Package violations judges from what users received whether their limits were
// kept. It shares no arithmetic with the limiter whose work it judges.
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
}

// A Violation is one push that came too soon.
type Violation struct {
	App, User string
	// Scope is throttle.General or the category whose limit was not kept; Rule is
	// "gap" or the rate as it is written.
	Scope, Rule string
	// At is when it came, Early how much later it should have come.
	At    time.Time
	Early time.Duration
}

// Find answers every push that came sooner than the policies allow, by more
// than the tolerance. A user of an app has the general policy over all that is
// not exempt, and each category's policy over the category. Find changes the
// order of pushes.
func Find(pushes []Push, general throttle.Policy, categories map[string]throttle.Policy, tolerance time.Duration) []Violation {
	type timeline struct {
		app, user, scope string
		policy           *throttle.Policy
	}
	timelines := map[timeline][]time.Time{}
	policies := make(map[string]*throttle.Policy, len(categories))
	for name, policy := range categories {
		policies[name] = &policy
	}
	slices.SortFunc(pushes, func(a, b Push) int { return a.At.Compare(b.At) })
	for _, p := range pushes {
		own := policies[p.Category]
		if own != nil && own.Exempt {
			continue
		}
		all := timeline{p.App, p.User, throttle.General, &general}
		timelines[all] = append(timelines[all], p.At)
		if own != nil {
			category := timeline{p.App, p.User, p.Category, own}
			timelines[category] = append(timelines[category], p.At)
		}
	}
	var found []Violation
	for of, instants := range timelines {
		check := func(rule string, count int, period time.Duration) {
			for i := count; i < len(instants); i++ {
				if early := period - instants[i].Sub(instants[i-count]); early > tolerance {
					found = append(found, Violation{of.app, of.user, of.scope, rule, instants[i], early})
				}
			}
		}
		check("gap", 1, of.policy.MinGap)
		for _, r := range of.policy.Rates {
			check(r.String(), r.Count, r.Period)
		}
	}
	slices.SortFunc(found, func(a, b Violation) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.User, b.User), cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Rule, b.Rule))
	})
	return found
}
