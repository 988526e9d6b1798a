package timeline_test

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/pushpace/pushpace/internal/base/golden"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/words/timeline"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

var now = time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)

// A user is the source of a timeline.
type user struct {
	name    string
	general throttle.Policy
	// sent and booked are instants from now, by scope.
	sent   map[string][]time.Duration
	booked map[string][]time.Duration
	// categories have their own policies.
	categories map[string]throttle.Policy
	job        string       // the state of each booking's job; "" for retry
	ended      []push.State // the final states of bookings without a job
	source     limits.Source
	until      time.Duration // from now, of the source
	quiet      *inspect.Quiet
	muted      bool
}

// timeline returns the user's Inspector.Timeline.
func (u user) timeline() *inspect.Timeline {
	t := &inspect.Timeline{App: "shop", User: u.name, Now: now, Bookings: []inspect.Waiter{}}
	known := throttle.Timeline{Now: now, Admissions: map[string][]throttle.Entry{}}
	for scope, offsets := range u.sent {
		for i, d := range offsets {
			known.Admissions[scope] = append(known.Admissions[scope], throttle.Entry{ID: fmt.Sprintf("sent-%d", i+1), At: now.Add(d)})
		}
	}
	for scope, offsets := range u.booked {
		for i, d := range offsets {
			known.Bookings = append(known.Bookings, throttle.Booking{ID: fmt.Sprintf("%s-%d", scope, i+1), Scope: scope, Slot: now.Add(d)})
		}
	}
	add := func(name string, p throttle.Policy) {
		one := inspect.TimelineScope{Scope: name, Exempt: p.Exempt, Source: u.source, Admissions: known.Admissions[name], Quiet: u.quiet, Muted: u.muted}
		if u.until > 0 {
			one.Until = now.Add(u.until)
		}
		s := throttle.Scope{Name: name, Policy: p}
		for _, w := range known.Windows(s) {
			one.Limits = append(one.Limits, inspect.Window{Rule: w.Rule, Count: w.Count, Period: push.Duration(w.Period), Used: w.Used, AtLeast: w.AtLeast, Free: w.Free})
		}
		t.Scopes = append(t.Scopes, one)
		rules := bound(known, s)
		for i, b := range known.Bookings {
			if b.Scope != name {
				continue
			}
			b.Rule, b.After = rules[b.ID].Rule, rules[b.ID].After
			w := inspect.Waiter{Booking: b, State: push.Waiting, Job: cmp.Or(u.job, "retry")}
			if u.ended != nil {
				w.State, w.Job = u.ended[i], ""
			}
			t.Bookings = append(t.Bookings, w)
		}
	}
	add(throttle.General, u.general)
	for _, name := range []string{"marketing", "security", "Grüße 日本"} {
		if p, ok := u.categories[name]; ok {
			add(name, p)
		}
	}
	return t
}

// bound returns each booking of the scope, by ID, with the rule that frees it last, after the
// admissions and the bookings ahead of it, and the start of that rule's period.
func bound(t throttle.Timeline, s throttle.Scope) map[string]throttle.Booking {
	var ahead []throttle.Entry
	for _, a := range t.Admissions[s.Name] {
		ahead = append(ahead, throttle.Entry(a))
	}
	rules := map[string]throttle.Booking{}
	for _, b := range t.Bookings {
		if b.Scope != s.Name {
			continue
		}
		var latest time.Time
		limit := func(name string, n int, period time.Duration) {
			if n > len(ahead) || period == 0 {
				return
			}
			after := ahead[len(ahead)-n]
			if free := after.At.Add(period); free.After(latest) {
				latest, rules[b.ID] = free, throttle.Booking{Rule: name, After: after}
			}
		}
		limit("gap", 1, s.Policy.MinGap)
		for _, r := range s.Policy.Rates {
			limit(r.String(), r.Count, r.Period)
		}
		ahead = append(ahead, throttle.Entry{ID: b.ID, At: b.Slot})
	}
	return rules
}

// every returns n offsets: the first, and each next one a gap later.
func every(first, gap time.Duration, n int) []time.Duration {
	offsets := make([]time.Duration, n)
	for i := range offsets {
		offsets[i] = first + time.Duration(i)*gap
	}
	return offsets
}

var shipped = throttle.Policy{MinGap: time.Second, Rates: []throttle.Rate{{Count: 10, Period: time.Minute}, {Count: 100, Period: 24 * time.Hour}}}

var night = &inspect.Quiet{Zone: "Europe/Berlin", Closed: []inspect.Closed{
	{From: now.Add(-time.Hour), Until: now.Add(11 * time.Hour)}, {From: now.Add(23 * time.Hour), Until: now.Add(35 * time.Hour)}}}

var users = map[string]user{
	"empty": {name: "ada", general: shipped},
	"burst": {
		name: "ada", general: shipped,
		sent:       map[string][]time.Duration{"all": append(every(-9*time.Hour, time.Hour, 5), every(-3700*time.Millisecond, time.Second, 4)...), "marketing": {-9 * time.Hour}},
		booked:     map[string][]time.Duration{"all": every(303*time.Millisecond, 1003*time.Millisecond, 5), "marketing": {15 * time.Hour}},
		categories: map[string]throttle.Policy{"marketing": {Rates: []throttle.Rate{{Count: 1, Period: 24 * time.Hour}}}, "security": {Exempt: true}},
	},
	"rate": {
		name: "bob", general: shipped,
		sent:   map[string][]time.Duration{"all": every(-50*time.Second, 2*time.Second, 10)},
		booked: map[string][]time.Duration{"all": every(10*time.Second, 2*time.Second, 3)},
	},
	"freeing": {name: "bob", general: shipped, sent: map[string][]time.Duration{"all": every(-50*time.Second, 5*time.Second, 10)}},
	"thousand": {
		name: "busy", general: throttle.Policy{MinGap: time.Second, Rates: []throttle.Rate{{Count: 5000, Period: 24 * time.Hour}}},
		sent:   map[string][]time.Duration{"all": every(-1000*time.Second, time.Second, 1000)},
		booked: map[string][]time.Duration{"all": every(time.Second, time.Second, 1000)},
	},
	"only_a_category": {
		name: "ada", categories: map[string]throttle.Policy{"marketing": {Rates: []throttle.Rate{{Count: 1, Period: 24 * time.Hour}}}},
		sent:   map[string][]time.Duration{"marketing": {-time.Hour}},
		booked: map[string][]time.Duration{"marketing": {23 * time.Hour}},
	},
	"long_and_short": {
		name:    "ada",
		general: throttle.Policy{MinGap: 5 * time.Millisecond, Rates: []throttle.Rate{{Count: 3, Period: 30 * 24 * time.Hour}}},
		sent:    map[string][]time.Duration{"all": {-29 * 24 * time.Hour, -time.Hour, -time.Millisecond}},
		booked:  map[string][]time.Duration{"all": {24 * time.Hour}},
	},
	"names": {
		name: "Zoë 日本 🎉", general: shipped,
		categories: map[string]throttle.Policy{"Grüße 日本": {MinGap: time.Hour}},
		sent:       map[string][]time.Duration{"Grüße 日本": {-time.Minute}},
		booked:     map[string][]time.Duration{"Grüße 日本": {59 * time.Minute}},
	},
	"overdue":       {name: "ada", general: shipped, booked: map[string][]time.Duration{"all": {-12 * time.Second, -11 * time.Second, time.Second}}, job: "pending"},
	"in_hand":       {name: "ada", general: shipped, booked: map[string][]time.Duration{"all": {-200 * time.Millisecond}}, job: "active"},
	"in_hand_ahead": {name: "ada", general: shipped, sent: map[string][]time.Duration{"all": {-400 * time.Millisecond}}, booked: map[string][]time.Duration{"all": {600 * time.Millisecond, 1603 * time.Millisecond}}, job: "active"},
	"left_over":     {name: "ada", general: shipped, booked: map[string][]time.Duration{"all": {time.Second, 2 * time.Second}}, ended: []push.State{push.Expired, ""}},
	"overridden":    {name: "ada", general: shipped, source: limits.FromUser, until: 2 * time.Hour, categories: map[string]throttle.Policy{"security": {Exempt: true}}},
	"night":         {name: "ada", general: shipped, quiet: night, sent: map[string][]time.Duration{"all": {-2 * time.Hour}}, booked: map[string][]time.Duration{"all": every(11*time.Hour, 1003*time.Millisecond, 3)}},
	"night_alone":   {name: "ada", quiet: night},
	"muted":         {name: "ada", general: shipped, muted: true},
	"hostile":       {name: "ada\x1b[2J\u202e", general: shipped},
}

// printed returns Print's output. It checks that all characters are printable, so that no name
// changes the terminal.
func printed(t *testing.T, tl *inspect.Timeline) string {
	t.Helper()
	var b strings.Builder
	if err := timeline.Print(&b, tl); err != nil {
		t.Fatal(err)
	}
	if i := strings.IndexFunc(b.String(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 || b.Len() == 0 {
		t.Errorf("%q", b.String())
	}
	return b.String()
}

func TestPrint(t *testing.T) {
	t.Parallel()
	for name, u := range users {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden.Match(t, filepath.Join("testdata", name+".txt"), printed(t, u.timeline()))
		})
	}
}

// Print prints any names and numbers. It shows a mute even for a scope without limits.
func TestPrintAcceptsOddTimelines(t *testing.T) {
	t.Parallel()
	const hostile = "a\x1b[31m\u202e\n\tb"
	period := time.Duration(1<<63 - 1)
	for _, tl := range []*inspect.Timeline{
		{Scopes: []inspect.TimelineScope{{Scope: "all"}}},
		{Now: now, Scopes: []inspect.TimelineScope{{Scope: "all", Limits: []inspect.Window{{Rule: "gap", Count: 1, Period: push.Duration(period), Used: 1, Free: now.Add(period)}}}}},
		{Now: now, Scopes: []inspect.TimelineScope{{Scope: "all", Limits: []inspect.Window{{Rule: "gap", Count: 1, Period: 1, Used: 99}}}},
			Bookings: []inspect.Waiter{{Booking: throttle.Booking{ID: strings.Repeat("x", 128), Scope: "gone", Slot: now.Add(-period)}}}},
		{Now: now, Scopes: []inspect.TimelineScope{{Scope: hostile, Admissions: []throttle.Entry{{ID: hostile, At: now}}}},
			Bookings: []inspect.Waiter{{Booking: throttle.Booking{ID: hostile, Scope: hostile, Category: hostile, Rule: "gap", Slot: now.Add(time.Second)}}}},
	} {
		printed(t, tl)
	}
	if text := printed(t, &inspect.Timeline{Now: now, Scopes: []inspect.TimelineScope{{Scope: "all"}, {Scope: "marketing", Muted: true}}}); !regexp.MustCompile(`(?m)^marketing +muted$`).MatchString(text) {
		t.Errorf("the mute is missing in\n%s", text)
	}
}

// The answer says that a user waits because Redis's clock was set back.
func TestAnswerReportsClockSetBack(t *testing.T) {
	t.Parallel()
	one := user{name: "ada", general: throttle.Policy{MinGap: time.Minute}, sent: map[string][]time.Duration{throttle.General: {30 * time.Second}}}
	if got := timeline.Answer(one.timeline()).String(); !strings.Contains(got, "Redis's clock was set back, and the last push counts as sent in 30s, so nothing is sent before.") {
		t.Error(got)
	}
	one.sent[throttle.General][0] = -time.Second
	if got := timeline.Answer(one.timeline()).String(); strings.Contains(got, "clock") {
		t.Error(got)
	}
}
