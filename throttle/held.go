package throttle

import (
	"slices"
	"time"

	"github.com/pushpace/pushpace/throttle/quiet"
)

// Quiet hours are one more thing that a search for a place jumps over. They come to the model
// as lists of what is closed for the user in the days ahead, and are kept with those who wait,
// as limits are: so whoever gives a slot again leaves the night alone.

// A list is what is closed for the user by quiet hours, in Unix s by the limiter's clock and in
// order. nil says nothing, an empty one that nothing is.
type list []quiet.Interval

const inMicros = 1_000_000

// opened returns that instant, or the end of the interval around it.
func (l list) opened(at int64) int64 {
	for _, i := range l {
		if at < i.From*inMicros {
			break
		}
		if at < i.Upto*inMicros {
			return i.Upto * inMicros
		}
	}
	return at
}

// lists are the general one, and the category's own, which takes its place.
type lists struct{ general, own list }

// holds is the one that holds for the category.
func (l lists) holds() list {
	if l.own != nil {
		return l.own
	}
	return l.general
}

// night is the list as one of the views that slots are given by.
func (l lists) night() []*view {
	if closed := l.holds(); len(closed) > 0 {
		return []*view{{closed: closed}}
	}
	return nil
}

// quietPolicy is the one whose quiet hours hold for the request, and the name of its scope, or
// nil where none do.
func (r *Request) quietPolicy() (p *Policy, scope string) {
	for i := range r.Scopes {
		if s := &r.Scopes[i]; s.Policy.Quiet != nil {
			p, scope = &s.Policy, s.Name
		}
	}
	if p != nil && len(p.Quiet) == 0 {
		p = nil
	}
	return p, scope
}

// asksQuiet reports whether the request says something of quiet hours. That there are no
// general ones says nothing.
func (r *Request) asksQuiet() bool {
	for i := range r.Scopes {
		if s := &r.Scopes[i]; len(s.Policy.Quiet) > 0 || s.Name != General && s.Policy.Quiet != nil {
			return true
		}
	}
	return false
}

// zone is the one that the notification is of by itself.
func (r *Request) zone() *time.Location {
	if r.Zone != nil {
		return r.Zone
	}
	for i := range r.Scopes {
		if in := r.Scopes[i].Policy.Night.Zone; in != nil {
			return in
		}
	}
	return time.UTC
}

// lists are those of the request's policies by the zone's clocks.
func (r *Request) lists(in *time.Location, now int64) lists {
	of := func(p *Policy) list {
		if p == nil || p.Quiet == nil {
			return nil
		}
		return append(list{}, p.Quiet.Ahead(in, p.Night, r.App, r.User, now/inMicros)...)
	}
	general, own := r.policies()
	l := lists{of(general), of(own)}
	if len(l.general) == 0 {
		l.general = nil
	}
	return l
}

// Held is how much of the time from an instant up to another quiet hours hold the
// notification, by its own zone.
func (r *Request) Held(from, upto time.Time) (held time.Duration) {
	p, _ := r.quietPolicy()
	if p == nil || r.Passes {
		return 0
	}
	const known = 8 * 24 * time.Hour // of Ahead at least
	for at := from; at.Before(upto); at = at.Add(known) {
		end := at.Add(known)
		if upto.Before(end) {
			end = upto
		}
		for _, i := range p.Quiet.Ahead(r.zone(), p.Night, r.App, r.User, at.Unix()) {
			begins, ends := time.Unix(i.From, 0), time.Unix(i.Upto, 0)
			if begins.Before(at) {
				begins = at
			}
			if end.Before(ends) {
				ends = end
			}
			held += max(0, ends.Sub(begins))
		}
	}
	return held
}

// A zoned is the zone of those who wait: that of the most recently accepted that names one.
type zoned struct {
	in       *time.Location // nil for none
	accepted int64
}

// quiet begins what a visit has to do with quiet hours: by which zone's clocks, that of those
// who wait, or that of the notification where it was accepted after them.
func (v *visit) quiet() {
	if len(v.classes) == 0 {
		v.zone = zoned{}
	}
	in := v.r.zone()
	if v.zone.in != nil && v.said() <= v.zone.accepted {
		v.told = v.zone.in.String() != in.String()
		in = v.zone.in
	}
	v.lists = v.r.lists(in, v.now)
}

// alike returns how many of them, from the first one on, are of one zone, and may be decided of
// together.
func alike(all []Request) int {
	if !all[0].asksQuiet() {
		return len(all)
	}
	n := 1
	for n < len(all) && all[n].zone().String() == all[0].zone().String() {
		n++
	}
	return n
}

// said is the instant that says whose zone it is: that of the acceptance, saidNow for that of
// the call, and 0 of one that says nothing of the zone.
func (r *Request) said() int64 {
	switch {
	case r.Zone == nil || r.Passes || r.ID == "":
		return 0
	case !r.ZoneAt.IsZero():
		return r.ZoneAt.UnixMicro()
	case r.accepted() > 0:
		return r.accepted()
	}
	return saidNow
}

const saidNow = -1

// said is Request.said, or now.
func (v *visit) said() int64 {
	if at := v.r.said(); at != saidNow {
		return at
	}
	return v.now
}

// listsOf are those that the category's slots are given by.
func (u *model) listsOf(c *class) lists { return lists{u.closed, c.closed} }

// scope is that whose list holds for the category.
func (l lists) scope(category string) string {
	if l.own != nil {
		return category
	}
	return General
}

func (l lists) same(general, own list) bool {
	return slices.Equal(l.general, general) && slices.Equal(l.own, own) && (l.own == nil) == (own == nil)
}

// quietly says what quiet hours have to do with the decision.
func (d *Decision) quietly(r *Request, l list) {
	at, now := d.At.UnixMicro(), d.Now.UnixMicro()
	if end := l.opened(now); end > now && !r.Passes {
		d.Quiet = micros(end)
	}
	if at > now && l.endsAt(at) {
		_, d.Scope = r.quietPolicy()
		d.Rule = QuietRule
	}
}

// quietly says what is closed to the request, by the clocks of those who wait.
func (t *Timeline) quietly(r *Request, u *model) {
	p, _ := r.quietPolicy()
	if p == nil {
		return
	}
	in := r.zone()
	if u.zone.in != nil {
		in = u.zone.in
	}
	t.Quiet, t.Hours, t.Zone = r.lists(in, t.Now.UnixMicro()).holds(), p.Quiet, in.String()
}

// endsAt reports whether an interval ends at the instant, or just before.
func (l list) endsAt(at int64) bool {
	return slices.ContainsFunc(l, func(i quiet.Interval) bool {
		end := i.Upto * inMicros
		return end <= at && at <= end+slack
	})
}

// until returns the end of the first quiet hours that hold the request in the time from an
// instant to another, at most a day later, in µs; 0 where none do.
func (r *Request) until(from, upto int64) int64 {
	p, _ := r.quietPolicy()
	if p == nil || r.Passes {
		return 0
	}
	return p.Quiet.Until(r.zone(), p.Night, r.App, r.User, from/inMicros, upto/inMicros) * inMicros
}
