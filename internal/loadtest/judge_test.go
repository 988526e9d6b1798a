package loadtest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers/standin"
)

// goodLog returns the log of one round, and the admissions of user-0, with three
// notifications. Notification i arrives i ms after the first instant that the limits allow.
func goodLog() (*log, map[string]time.Time) {
	l := newLog(newPlan(roundUsers, 0))
	l.hand(0, l.notifications)
	admitted := map[string]time.Time{}
	for i, after := range []time.Duration{0, limits.MinGap, limits.Rates[0].Period, 0, 0, 0, 0, 0, 0, 0} {
		allowed := l.start.Add(l.handed[i] + after)
		if l.user(i) == 0 {
			admitted[l.notification(i).ID] = allowed
		}
		take(l, i, allowed.Add(time.Duration(i)*time.Millisecond))
	}
	return l, admitted
}

// take records that a stand-in took the i-th notification at that instant.
func take(l *log, i int, at time.Time) {
	_ = l.arrive(standin.Entry{At: at, Notification: l.notification(i).ID})
}

func judged(l *log, admitted map[string]time.Time) verdict { return l.judge(admitted, l.several(), 0) }

func TestJudgeAcceptsGoodLog(t *testing.T) {
	t.Parallel()
	l, admitted := goodLog()
	v := judged(l, admitted)
	if v.violations != 0 || v.lost != 0 || v.twice != 0 || v.putOff != 2 || len(v.lateness) != l.notifications {
		t.Errorf("%+v", v)
	}
	for i, late := range v.lateness {
		if want := time.Duration(i) * time.Millisecond; late < want-time.Microsecond || late > want+time.Microsecond {
			t.Errorf("lateness %d: %s, want %s", i, late, want)
		}
	}
}

func TestJudgeFindsFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change                  func(l *log, admitted map[string]time.Time)
		violations, lost, twice int
		says                    string
	}{
		"a loss":           {func(l *log, _ map[string]time.Time) { l.arrivals[4] = arrivals{} }, 0, 1, 0, ""},
		"a double":         {func(l *log, _ map[string]time.Time) { take(l, 4, l.start.Add(time.Hour)) }, 0, 0, 1, ""},
		"an unknown push":  {func(l *log, _ map[string]time.Time) { _ = l.arrive(standin.Entry{Notification: "n-10"}) }, 1, 0, 0, "the bench has not enqueued"},
		"an unasked push":  {func(l *log, _ map[string]time.Time) { l.handed[4] = 0 }, 1, 0, 0, "n-4 arrived before it was enqueued"},
		"a broken gap":     {func(_ *log, a map[string]time.Time) { a["n-1"] = a["n-1"].Add(-time.Millisecond) }, 1, 0, 0, "user-0 got a notification 1ms too soon for the limit gap"},
		"a broken rate":    {func(_ *log, a map[string]time.Time) { a["n-2"] = a["n-2"].Add(-time.Millisecond) }, 1, 0, 0, "user-0 got a notification 1ms too soon for the limit 2/15s"},
		"no admission":     {func(_ *log, a map[string]time.Time) { delete(a, "n-2") }, 1, 0, 0, "n-2 was sent without an admission by its limits"},
		"a late admission": {func(_ *log, a map[string]time.Time) { a["n-2"] = a["n-2"].Add(time.Second) }, 1, 0, 0, "n-2 arrived 998ms before its limits admitted it"},
		"an early admission": {func(_ *log, a map[string]time.Time) { a["n-0"] = a["n-0"].Add(-time.Second) }, 1, 0, 0,
			"the admission of n-0 is 1s older than the notification"},
	} {
		l, admitted := goodLog()
		c.change(l, admitted)
		v := judged(l, admitted)
		if v.violations != c.violations || v.lost != c.lost || v.twice != c.twice || !strings.Contains(strings.Join(v.faults, "\n"), c.says) {
			t.Errorf("%s: %+v", name, v)
		}
		report := Report{Violations: v.violations, Lost: v.lost, Twice: v.twice, Faults: v.faults}
		if err := report.Err(); (err == nil) != (c.violations+c.lost == 0) {
			t.Errorf("%s: the report says %v", name, err)
		}
	}
}

// The plan puts off two of ten notifications, and sends each user at least one.
func TestPlanPutsOffTwoOfTenNotifications(t *testing.T) {
	t.Parallel()
	p := newPlan(1000, 0)
	var got [1000]int
	putOff := 0
	for i := range p.notifications {
		n := p.notification(i)
		if err := n.Validate(); err != nil {
			t.Fatal(err)
		}
		if k, ok := p.index(n.ID); !ok || k != i {
			t.Errorf("%s has the index %d, %v", n.ID, k, ok)
		}
		got[p.user(i)]++
		if p.putOff(i) {
			putOff++
		}
	}
	if p.notifications != 1250 || putOff != 250 || slices.Min(got[:]) != 1 || slices.Max(got[:]) != burst {
		t.Errorf("%d notifications, %d put off, to each user %d to %d", p.notifications, putOff, slices.Min(got[:]), slices.Max(got[:]))
	}
	for _, id := range []string{"n-1250", "n--1", "n-", "x", "7"} {
		if _, ok := p.index(id); ok {
			t.Errorf("%q is in the plan", id)
		}
	}
}
