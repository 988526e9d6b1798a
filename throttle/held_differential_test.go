package throttle

import (
	"fmt"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/base/zone"
	"github.com/pushpace/pushpace/throttle/quiet"
	"pgregory.net/rapid"
)

// A genQuiet draws quiet hours of minutes, for histories that begin at noon UTC, in zones whose
// clocks show other hours then.
type genQuiet struct {
	rt    *rapid.T
	some  bool // else there are none
	zones []*time.Location
	night quiet.Night
}

func newGenQuiet(rt *rapid.T) *genQuiet {
	g := &genQuiet{rt: rt, some: rapid.IntRange(0, 2).Draw(rt, "quiet hours") > 0, zones: []*time.Location{nil}}
	for _, name := range []string{"Europe/Berlin", "Asia/Kolkata"} {
		in, err := zone.Load(name)
		if err != nil {
			rt.Fatal(err)
		}
		g.zones = append(g.zones, in)
	}
	if !rapid.Bool().Draw(rt, "several zones") {
		g.zones = g.zones[:1]
	}
	g.night.Spread = rapid.SampledFrom([]time.Duration{0, 0, 30 * time.Second}).Draw(rt, "spread")
	return g
}

// policy is the policy with quiet hours, perhaps.
func (g *genQuiet) policy(p Policy) Policy {
	if !g.some {
		return p
	}
	windows := []string{"12:00-12:01", "12:01-12:02", "12:02-12:04", "11:59-12:01", "13:00-13:01", "13:01-13:03", "17:30-17:32", "17:31-17:32"}
	switch rapid.IntRange(0, 4).Draw(g.rt, "quiet") {
	case 0:
	case 1:
		p.Quiet = quiet.Hours{}
	default:
		for _, text := range rapid.SliceOfNDistinct(rapid.SampledFrom(windows), 1, 3, rapid.ID).Draw(g.rt, "windows") {
			w, err := quiet.Parse(text)
			if err != nil {
				g.rt.Fatal(err)
			}
			p.Quiet = append(p.Quiet, w)
		}
	}
	p.Night = g.night
	return p
}

// request has the request ask in a zone, and pass quiet hours, perhaps.
func (g *genQuiet) request(r *Request) {
	if g.some {
		r.Zone = rapid.SampledFrom(g.zones).Draw(g.rt, "zone")
		r.Passes = rapid.IntRange(0, 4).Draw(g.rt, "passes") == 0
	}
}

// fields are what the hash of limits may have of the policies' quiet hours.
func (g *genQuiet) fields(policies map[string]Policy, categories []string) (fields []any) {
	if !g.some {
		return nil
	}
	r := Request{User: "u", Zone: rapid.SampledFrom(g.zones).Draw(g.rt, "zone")}
	written := func(p Policy) string {
		r.Scopes = []Scope{{General, p}}
		return r.lists(r.zone(), start.UnixMicro()).general.words()
	}
	if words := written(policies[General]); words != "" {
		fields = append(fields, "h", words)
	}
	for _, category := range categories {
		if p := policies[category]; p.Quiet != nil {
			fields = append(fields, "q"+category, written(p))
		}
	}
	if len(fields) > 0 {
		at := start.Add(time.Duration(rapid.IntRange(-3, 9).Draw(g.rt, "accepted")) * time.Second)
		fields = append(fields, "z", fmt.Sprint(at.UnixMicro(), " ", r.zone()))
	}
	return fields
}

// quietState is what is kept of quiet hours, where somebody waits by them.
func (u *model) quietState() string {
	if !u.anyQuiet() {
		return ""
	}
	text := &strings.Builder{}
	fmt.Fprintln(text, u.zone.in, u.zone.accepted, u.closed.words())
	for _, category := range []string{"", "a", "b", "c"} {
		if c := u.classes[category]; c != nil && c.closed != nil {
			fmt.Fprintln(text, category, c.closed.words())
		}
	}
	return text.String()
}
