package throttle

import (
	"math"
	"testing"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	const now = 1_000_000
	gap := func(period int64) rule { return rule{1, period} }
	for _, tt := range []struct {
		name  string
		views []glance
		at    int64
	}{
		{"no scopes", nil, now},
		{"no history", []glance{{[]rule{gap(10), {5, 100}}, []entry{none, none}}}, now},
		{"an entry exactly one period old has expired", []glance{{[]rule{gap(10)}, []entry{now - 10}}}, now},
		{"a microsecond younger has not", []glance{{[]rule{gap(10)}, []entry{now - 9}}}, now + 1},
		{"an entry now", []glance{{[]rule{gap(10)}, []entry{now}}}, now + 10},
		{"an entry ahead", []glance{{[]rule{gap(10)}, []entry{now + 5}}}, now + 15},
		{"no gap", []glance{{[]rule{gap(0), {2, 100}}, []entry{now, none}}}, now},
		{"no gap, an entry ahead", []glance{{[]rule{gap(0)}, []entry{now + 5}}}, now},
		{"the rate binds", []glance{{[]rule{gap(10), {2, 100}}, []entry{now - 5, now - 50}}}, now + 50},
		{"the gap binds", []glance{{[]rule{gap(10), {2, 100}}, []entry{now - 5, now - 99}}}, now + 5},
		{"both bind", []glance{{[]rule{gap(10), {2, 100}}, []entry{now - 5, now - 95}}}, now + 5},
		{"the second scope binds", []glance{
			{[]rule{gap(10)}, []entry{now - 5}},
			{[]rule{gap(10), {3, 1000}}, []entry{now - 5, now - 1}},
		}, now + 999},
		{"the first scope binds", []glance{
			{[]rule{gap(10), {3, 1000}}, []entry{now - 5, now - 1}},
			{[]rule{gap(10)}, []entry{now - 5}},
		}, now + 999},
		{"the longest period", []glance{{[]rule{gap(math.MaxInt64 / 2)}, []entry{now}}}, now + math.MaxInt64/2},
	} {
		if at := decide(tt.views, now); at != tt.at {
			t.Errorf("%s: decide = %d, want %d", tt.name, at, tt.at)
		}
	}
}

// FuzzDecide checks that the answer is the first instant that no rule forbids.
func FuzzDecide(f *testing.F) {
	f.Add(int64(1000), int64(10), int64(995), int64(100), int64(950), int64(7), int64(-1))
	f.Add(int64(0), int64(0), int64(0), int64(1), int64(0), int64(2), int64(1))
	f.Add(int64(1), int64(math.MaxInt32), int64(5), int64(0), int64(-1), int64(1), int64(9))
	f.Fuzz(func(t *testing.T, from, p0, e0, p1, e1, p2, e2 int64) {
		const most = 1 << 61
		bound := func(n int64) int64 { return max(none, n%most) }
		from = max(0, bound(from))
		views := []glance{
			{[]rule{{1, max(0, bound(p0))}, {3, max(0, bound(p1))}}, []entry{bound(e0), bound(e1)}},
			{[]rule{{1, max(0, bound(p2))}}, []entry{bound(e2)}},
		}
		at := decide(views, from)
		if at < from {
			t.Fatalf("%v: at %d is before %d", views, at, from)
		}
		tight := at == from
		for i, v := range views {
			for j, rule := range v.rules {
				if rule.period == 0 || v.nth[j] == none {
					continue
				}
				if at-v.nth[j] < rule.period {
					t.Fatalf("%v: at %d the rule %d of scope %d is violated", views, at, j, i)
				}
				tight = tight || at-v.nth[j] == rule.period
			}
		}
		if !tight {
			t.Fatalf("%v: %d is later than any rule asks for", views, at)
		}
	})
}

func TestStampHolds(t *testing.T) {
	t.Parallel()
	const now = 1_000_000_000
	for stamp, want := range map[int64]bool{
		now: true, now - stampEarly: true, now - stampEarly - 1: false, now + stampLate: true, now + stampLate + 1: false,
	} {
		if stampHolds(stamp, now) != want {
			t.Errorf("a stamp %d µs after the server's instant: %v", stamp-now, !want)
		}
	}
}

func TestMarginIsAFiftiethAndAtMostThreeMilliseconds(t *testing.T) {
	t.Parallel()
	for rate, want := range map[string]int64{"1/1ms": 20, "10/1s": 2000, "1/24h": 3000, "1000000/1ms": 1} {
		r, err := ParseRate(rate)
		if err != nil {
			t.Fatal(err)
		}
		if got := (Policy{Rates: []Rate{r}}).margin(); got != want {
			t.Errorf("the margin of %s is %d µs, want %d", rate, got, want)
		}
	}
	if got := (Policy{}).margin(); got != 1 {
		t.Errorf("the margin without limits is %d µs, want 1", got)
	}
}
