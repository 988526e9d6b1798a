package quiet

import (
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// A Night is what all quiet hours have in common.
type Night struct {
	// Zone is that of users whose own is not known; nil for UTC.
	Zone *time.Location
	// Spread is by how much later each user's quiet hours may end, up to MaxSpread and in
	// whole seconds: see Spread.
	Spread time.Duration
}

// MaxSpread is the longest spread: an end of quiet hours that is later is another one. A list of
// intervals begins as much before its day.
const MaxSpread = 2 * time.Hour

// reach is what shows all that has to do with an instant: a week, within which hours are open at
// some time, a day that a window reaches into, and two by which zones are apart.
const reach = (7 + 1 + 2) * 24 * time.Hour

// Ahead returns the intervals in which the user is left alone by the zone's clocks, in Unix s:
// those that end after the UTC day's beginning, and begin within ten days of it. They follow
// from the day alone, so that all who ask on it agree. The hours must not change any more.
func (h Hours) Ahead(in *time.Location, n Night, app, user string, at int64) []Interval {
	begin := dayOf(at)
	return h.Between(in, n, app, user, begin, after(begin, reach)-1)
}

// Between is Ahead for the UTC days from that of an instant to that of another.
func (h Hours) Between(in *time.Location, n Night, app, user string, from, upto int64) []Interval {
	begin, end := dayOf(from), after(dayOf(upto), 24*time.Hour)
	all := Spread(h.around(in, begin, end), app, user, n.seconds())
	return slices.DeleteFunc(all, func(i Interval) bool { return i.Upto <= begin || i.From >= end })
}

// Until returns the end of the first of Ahead's intervals that overlaps [from, upto], in Unix s, or
// 0 for none. upto is at most a day after from. It allocates nothing unless from is near the end of
// an interval.
func (h Hours) Until(in *time.Location, n Night, app, user string, from, upto int64) int64 {
	all := h.around(in, dayOf(from), after(dayOf(from), reach))
	for k, i := range all {
		switch most := mostLater(all, k, n.seconds()); {
		case i.From > upto:
			return 0
		case i.Upto+most <= from:
		case i.Upto > from || i.Upto+later(all, k, app, user, n.seconds()) > from:
			return i.Upto + later(all, k, app, user, n.seconds())
		}
	}
	return 0
}

func (n Night) seconds() int64 { return int64(n.Spread / time.Second) }

// dayOf is the beginning of the instant's UTC day.
func dayOf(at int64) int64 { return time.Unix(at, 0).Truncate(24 * time.Hour).Unix() }

// after is the instant so much later.
func after(at int64, d time.Duration) int64 { return at + int64(d/time.Second) }

// An asked is what around was asked: hours, by where they are, in a zone on some days.
type asked struct {
	hours      *Window
	count      int
	in         *time.Location
	begin, end int64
}

// remembered is what around has answered: of as many zones as there are, for a few policies.
var remembered, _ = lru.New[asked, []Interval](4096)

// around returns what is closed around and behind the days, so that it shows what follows the last
// of them. The caller must not change it.
func (h Hours) around(in *time.Location, begin, end int64) []Interval {
	if len(h) == 0 {
		return nil
	}
	of := asked{&h[0], len(h), in, begin, end}
	closed, ok := remembered.Get(of)
	if !ok {
		closed = h.Closed(in, after(begin, -MaxSpread), after(end, reach))
		remembered.Add(of, closed)
	}
	return closed
}
