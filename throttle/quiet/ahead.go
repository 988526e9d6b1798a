package quiet

import (
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// A Night holds the settings common to all quiet hours.
type Night struct {
	// Zone of users without a known zone; nil for UTC.
	Zone *time.Location
	// Spread is the largest delay of the end of a user's quiet hours, up to MaxSpread and in
	// whole seconds: see the function Spread.
	Spread time.Duration
}

// MaxSpread is the longest spread. Lists of intervals start that much before their day, to
// include delayed ends on the day.
const MaxSpread = 2 * time.Hour

// reach is how far from an instant a window may affect it: a week, in which hours are open at some
// time, a day for a window that ends on the next day, and two for the difference of zones.
const reach = (7 + 1 + 2) * 24 * time.Hour

// Ahead returns the user's quiet intervals by the zone's clock, in Unix s, if they end after the start
// of at's UTC day and begin within ten days of that start. The result depends only on the
// day, so that all callers on a day agree. The hours must not be modified after the call.
func (h Hours) Ahead(in *time.Location, n Night, app, user string, at int64) []Interval {
	begin := dayOf(at)
	return h.Between(in, n, app, user, begin, after(begin, reach)-1)
}

// Between is Ahead for all UTC days from from's day to upto's day.
func (h Hours) Between(in *time.Location, n Night, app, user string, from, upto int64) []Interval {
	begin, end := dayOf(from), after(dayOf(upto), 24*time.Hour)
	all := Spread(h.around(in, begin, end), app, user, n.seconds())
	return slices.DeleteFunc(all, func(i Interval) bool { return i.Upto <= begin || i.From >= end })
}

// Until returns the end of the first of Ahead's intervals that overlaps [from, upto], in Unix s;
// 0 for none. upto is at most a day after from. It allocates nothing unless from is near the end
// of an interval.
func (h Hours) Until(in *time.Location, n Night, app, user string, from, upto int64) int64 {
	all := h.around(in, dayOf(from), after(dayOf(from), reach))
	for k, i := range all {
		switch most := maxEndDelay(all, k, n.seconds()); {
		case i.From > upto:
			return 0
		case i.Upto+most <= from:
		case i.Upto > from || i.Upto+endDelay(all, k, app, user, n.seconds()) > from:
			return i.Upto + endDelay(all, k, app, user, n.seconds())
		}
	}
	return 0
}

func (n Night) seconds() int64 { return int64(n.Spread / time.Second) }

// dayOf returns the start of the UTC day.
func dayOf(at int64) int64 { return time.Unix(at, 0).Truncate(24 * time.Hour).Unix() }

// after returns at plus d.
func after(at int64, d time.Duration) int64 { return at + int64(d/time.Second) }

// A cacheKey is the key in the cache of around: hours, by address, in a zone on some days.
type cacheKey struct {
	hours      *Window
	count      int
	in         *time.Location
	begin, end int64
}

// cache caches the results of around, enough for all zones and a few policies.
var cache, _ = lru.New[cacheKey, []Interval](4096)

// around returns the closed intervals from before the days to after them, so that the open time
// after each interval in these days is known. The caller must not modify the result.
func (h Hours) around(in *time.Location, begin, end int64) []Interval {
	if len(h) == 0 {
		return nil
	}
	of := cacheKey{&h[0], len(h), in, begin, end}
	closed, ok := cache.Get(of)
	if !ok {
		closed = h.Closed(in, after(begin, -MaxSpread), after(end, reach))
		cache.Add(of, closed)
	}
	return closed
}
