package violations

import (
	"slices"
	"testing"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

var start = time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)

// pushes returns pushes of one user and category at these milliseconds after start.
func pushes(user, category string, at ...int) []Push {
	list := make([]Push, len(at))
	for i, ms := range at {
		list[i] = Push{App: "shop", User: user, Category: category, At: start.Add(time.Duration(ms) * time.Millisecond)}
	}
	return list
}

func TestFindReportsEarlyPushes(t *testing.T) {
	t.Parallel()
	general := throttle.Policy{MinGap: time.Second, Rates: []throttle.Rate{{Count: 3, Period: 10 * time.Second}}}
	categories := map[string]throttle.Policy{
		"marketing": {Rates: []throttle.Rate{{Count: 1, Period: time.Minute}}},
		"security":  {Exempt: true},
		"all":       {MinGap: 2 * time.Second}, // a category with the name of the general scope
	}
	elsewhere := pushes("u", "", 1)
	elsewhere[0].App = "game"
	for _, c := range []struct {
		name   string
		pushes []Push
		want   []string // user scope rule early
	}{
		{"nothing", nil, nil},
		{"at the gap", pushes("u", "", 0, 1000, 2000), nil},
		{"within the tolerance", pushes("u", "", 0, 950, 1900), nil},
		{"beyond the tolerance", pushes("u", "", 0, 949), []string{"u all gap 51ms"}},
		{"in any order", pushes("u", "", 4000, 900, 0), []string{"u all gap 100ms"}},
		{"the fourth in a window of three", pushes("u", "", 0, 2000, 4000, 9000), []string{"u all 3/10s 1s"}},
		{"the window rolls", pushes("u", "", 0, 2000, 4000, 10000, 12000), nil},
		{"each push that is too soon", pushes("u", "", 0, 3000, 6000, 9000, 12000), []string{"u all 3/10s 1s", "u all 3/10s 1s"}},
		{"users are apart", append(pushes("u", "", 0), pushes("v", "", 1)...), nil},
		{"exempt ones do not count", append(pushes("u", "security", 0, 1, 2, 3, 4), pushes("u", "", 5)...), nil},
		{"categories share the general limits", append(pushes("u", "orders", 0), pushes("u", "chat", 500)...), []string{"u all gap 500ms"}},
		{"a category's own limit", append(pushes("u", "marketing", 0, 40000), pushes("u", "orders", 20000)...), []string{"u marketing 1/1m 20s"}},
		{"apps are apart", append(pushes("u", "", 0), elsewhere...), nil},
		{"a category called all", pushes("u", "all", 0, 1500), []string{"u all gap 500ms"}},
		{"both scopes at once", pushes("u", "marketing", 0, 800), []string{"u all gap 200ms", "u marketing 1/1m 59.2s"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, v := range Find(c.pushes, general, categories, 50*time.Millisecond) {
				got = append(got, v.User+" "+v.Scope+" "+v.Rule+" "+v.Early.String())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A push is judged by the mildest policy that may have been in force.
func TestFindAppliesMildestPolicyInForce(t *testing.T) {
	t.Parallel()
	second, minute := throttle.Policy{MinGap: time.Second}, throttle.Policy{MinGap: time.Minute}
	for _, c := range []struct {
		name string
		of   []InForce // for each push
		at   []int     // ms
		want []time.Duration
	}{
		{"the change binds", []InForce{{General: []throttle.Policy{second}}, {General: []throttle.Policy{minute}}}, []int{0, 1000}, []time.Duration{59 * time.Second}},
		{"it may not bind yet", []InForce{{General: []throttle.Policy{second}}, {General: []throttle.Policy{minute, second}}}, []int{0, 1000}, nil},
		{"neither allows it", []InForce{{General: []throttle.Policy{second}}, {General: []throttle.Policy{minute, second}}}, []int{0, 500}, []time.Duration{500 * time.Millisecond}},
		{"it may be exempt", []InForce{{General: []throttle.Policy{second}}, {General: []throttle.Policy{second}, Category: []throttle.Policy{{Exempt: true}, minute}}}, []int{0, 0}, nil},
		{"its category's", []InForce{{Category: []throttle.Policy{second}}, {Category: []throttle.Policy{minute}}}, []int{0, 1000}, []time.Duration{59 * time.Second}},
	} {
		list := pushes("u", "c", c.at...)
		i := 0
		var got []time.Duration
		for _, v := range FindInForce(list, func(Push) InForce { i++; return c.of[i-1] }, 0) {
			got = append(got, v.Early)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: early by %v, want %v", c.name, got, c.want)
		}
	}
}
