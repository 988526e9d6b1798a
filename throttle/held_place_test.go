package throttle

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pushpace/pushpace/throttle/quiet"
)

// fits reports whether an entry at the instant keeps all of the view's limits, by looking at
// each window that would hold it.
func (s *view) fits(at int64, margins bool) bool {
	marks := slices.Insert(slices.Clone(s.marks), s.upTo(at), mark{at: at, id: "new"})
	for _, r := range s.rules {
		for first := 0; first+r.n < len(marks); first++ {
			window := marks[first : first+r.n+1]
			period := r.period
			if margins && (window[0].waits || window[r.n].waits) {
				period += s.margin
			}
			if slices.ContainsFunc(window, func(m mark) bool { return m.id == "new" }) && window[r.n].at-window[0].at < period {
				return false
			}
		}
	}
	return true
}

// A place is the first instant that is open and that all limits allow, by looking at one
// millisecond after another.
func TestAPlaceIsTheFirstInstantThatIsOpenAndFits(t *testing.T) {
	t.Parallel()
	const ms = 1000
	rapid.Check(t, func(rt *rapid.T) {
		u := newModel()
		instants := func(label string) (all []int64) {
			for _, at := range rapid.SliceOfNDistinct(rapid.Int64Range(0, 2000), 0, 6, rapid.ID).Draw(rt, label) {
				all = append(all, at*ms)
			}
			slices.Sort(all)
			return all
		}
		policies := []Policy{}
		for _, scope := range []string{General, "a"} {
			for _, at := range instants("sent in " + scope) {
				u.sent[scope] = append(u.sent[scope], admitted{at: at})
			}
			rates := []Rate{{1, 200 * time.Millisecond}, {2, 600 * time.Millisecond}, {3, 900 * time.Millisecond}}
			policies = append(policies, Policy{MinGap: 150 * time.Millisecond, Rates: rates[:rapid.IntRange(0, 3).Draw(rt, "rates")]})
		}
		for _, category := range []string{"a", "b"} {
			if slots := instants("slots of " + category); len(slots) > 0 {
				u.classes[category] = &class{slots: slots}
			}
		}
		closed := list{}
		for _, second := range rapid.SliceOfNDistinct(rapid.Int64Range(0, 9), 0, 4, rapid.ID).Draw(rt, "closed") {
			closed = append(closed, quiet.Interval{From: second, Upto: second + 1})
		}
		slices.SortFunc(closed, func(a, b quiet.Interval) int { return int(a.From - b.From) })
		law, margins := rapid.Bool().Draw(rt, "law"), rapid.Bool().Draw(rt, "margins")
		views := append([]*view{u.view("a", policies[1], law), u.view(General, policies[0], law)}, lists{general: closed}.night()...)
		from := rapid.Int64Range(0, 2500).Draw(rt, "from") * ms
		want := from
		for !views[0].fits(want, margins) || !views[1].fits(want, margins) ||
			slices.ContainsFunc(closed, func(i quiet.Interval) bool { return i.From <= want/1e6 && want/1e6 < i.Upto }) {
			want += ms
		}
		if got := place(views, from, margins); got != want {
			rt.Fatal(fmt.Sprintf("from %d at %d, want %d", from, got, want))
		}
	})
}
