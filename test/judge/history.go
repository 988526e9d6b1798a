package judge

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/violations"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// Admissions returns the admissions of the users user-0, user-1 and so on, on the limiter's clock.
// categories are the categories with limits. Unless sent is nil, it skips admissions that are not
// in sent: a killed worker leaves admissions of pushes that it did not send.
func Admissions(t *testing.T, client redis.UniversalClient, app string, users int, sent map[string]bool, categories ...string) []violations.Push {
	t.Helper()
	var names []string
	for i := range users {
		names = append(names, fmt.Sprint("user-", i))
	}
	return AdmissionsOf(t, client, app, names, sent, categories...)
}

// AdmissionsOf is Admissions of these users.
func AdmissionsOf(t *testing.T, client redis.UniversalClient, app string, users []string, sent map[string]bool, categories ...string) []violations.Push {
	t.Helper()
	limiter, err := throttle.New(client, throttle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer limiter.Close()
	var all []violations.Push
	for _, user := range users {
		timeline := func(scopes ...throttle.Scope) throttle.Timeline {
			timeline, err := limiter.Timeline(t.Context(), throttle.Request{App: app, User: user, Scopes: scopes})
			if err != nil {
				t.Fatal(err)
			}
			if len(timeline.Bookings) > 0 {
				t.Errorf("bookings of %s are left: %+v", user, timeline.Bookings)
			}
			return timeline
		}
		of := map[string]string{} // category by ID
		for _, category := range categories {
			for _, a := range timeline(throttle.Scope{Name: throttle.General}, throttle.Scope{Name: category}).Admissions[category] {
				of[a.ID] = category
			}
		}
		for _, a := range timeline(throttle.Scope{Name: throttle.General}).Admissions[throttle.General] {
			if sent == nil || sent[a.ID] {
				all = append(all, violations.Push{App: app, User: user, Category: of[a.ID], At: a.At})
			}
		}
	}
	return all
}

// A History knows which limits were in force at each time, from the log of the overrides.
type History struct {
	general    throttle.Policy // configured, as categories
	categories map[string]throttle.Policy
	// late is how long after a change the last worker applies the change.
	late    time.Duration
	Changes []limits.Change
	levels  map[[2]string][]ruled
}

type ruled struct {
	from   time.Time
	policy *throttle.Policy // nil: the policy of the next less specific level applies
}

// ReadHistory reads the log of overrides over the configured policies. All workers apply a change
// within maxDelay.
func ReadHistory(t *testing.T, o *limits.Overrides, general throttle.Policy, categories map[string]throttle.Policy, maxDelay time.Duration) *History {
	t.Helper()
	changes, err := o.Log(t.Context(), 0, limits.LogKept)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(changes)
	h := &History{general, categories, maxDelay, changes, map[[2]string][]ruled{}}
	for _, c := range changes {
		if c.Mute { // a mute changes no limits
			continue
		}
		level := [2]string{c.User, c.Category}
		if c.From != nil && !c.From.Until.IsZero() && c.From.Until.Before(c.At) { // it had ended before the change
			h.levels[level] = append(h.levels[level], ruled{from: c.From.Until})
		}
		v := ruled{from: c.At}
		if c.To != nil {
			v.policy = &c.To.Policy
		}
		h.levels[level] = append(h.levels[level], v)
	}
	return h
}

// between returns the policies that the level had between the two instants.
func (h *History) between(from, to time.Time, user, category string) []*throttle.Policy {
	had := []*throttle.Policy{nil}
	for _, v := range h.levels[[2]string{user, category}] {
		switch {
		case v.from.After(to):
			return had
		case v.from.After(from):
			had = append(had, v.policy)
		default:
			had = []*throttle.Policy{v.policy}
		}
	}
	return had
}

// Around lists the admissions and changes of the user before the violation.
func (h *History) Around(v violations.Violation, admitted []violations.Push) string {
	var lines []string
	line := func(at time.Time, format string, args ...any) {
		if from := at.Sub(v.At); from > -10*time.Second && from <= time.Second {
			lines = append(lines, at.Format("04:05.000000 ")+fmt.Sprintf(format, args...))
		}
	}
	for _, p := range admitted {
		if p.User == v.User {
			line(p.At, "admission, category %q", p.Category)
		}
	}
	for level, all := range h.levels {
		if level[0] == "" || level[0] == v.User {
			for _, r := range all {
				line(r.from, "%q: %+v", level, r.policy)
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// InForce returns the policies that any worker may have had in force for the push.
func (h *History) InForce(p violations.Push) violations.InForce {
	from, to := p.At.Add(-h.late), p.At.Add(10*time.Millisecond) // an instant of the log is a millisecond long
	var f violations.InForce
	for _, own := range h.between(from, to, p.User, "") {
		if own == nil {
			own = &h.general
		}
		f.General = append(f.General, *own)
	}
	configured, limited := h.categories[p.Category]
	if !limited {
		return f
	}
	for _, own := range h.between(from, to, p.User, p.Category) {
		if own != nil {
			f.Category = append(f.Category, *own)
			continue
		}
		for _, of := range h.between(from, to, "", p.Category) {
			if of == nil {
				of = &configured
			}
			f.Category = append(f.Category, *of)
		}
	}
	return f
}
