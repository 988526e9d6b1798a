package throttle

import (
	"strconv"
	"strings"

	"github.com/pushpace/pushpace/internal/base/zone"
	"github.com/pushpace/pushpace/throttle/quiet"
)

// read takes in what is kept of quiet hours with those who wait.
func (u *model) read(words map[string]string, classes map[string]*class) {
	if written, some := words["h"]; some {
		u.closed = listOf(written)
	}
	for escaped, c := range classes {
		if written, some := words["q"+escaped]; some {
			c.closed = listOf(written)
		}
	}
	accepted, name, _ := strings.Cut(words["z"], " ")
	if in, err := zone.Load(name); err == nil {
		at, _ := strconv.ParseInt(accepted, 10, 64)
		u.zone = zoned{in, at}
	}
}

// words writes the list as the script reads it: FROM UPTO…
func (l list) words() string {
	var b []byte
	for k, i := range l {
		if k > 0 {
			b = append(b, ' ')
		}
		b = append(strconv.AppendInt(b, i.From, 10), ' ')
		b = strconv.AppendInt(b, i.Upto, 10)
	}
	return string(b)
}

// listOf reads what words writes.
func listOf(words string) list {
	fields, l := strings.Fields(words), list{}
	for k := 0; k+1 < len(fields); k += 2 {
		from, _ := strconv.ParseInt(fields[k], 10, 64)
		upto, _ := strconv.ParseInt(fields[k+1], 10, 64)
		l = append(l, quiet.Interval{From: from, Upto: upto})
	}
	return l
}

// hours are what a call of the script says of quiet hours: zones, days and the spread stay in
// Go, and the script has instants alone. The zero value says nothing.
type hours struct {
	lists
	zone    string
	alike   int // so many of the requests ask by them
	request *Request
	now     int64
}

// asking returns what the operation says of quiet hours by the first one's zone. Those who only
// leave need none.
func (l *Redis) asking(op string, all []Request) hours {
	r := &all[0]
	if !r.asksQuiet() || op != opAcquire && op != opReschedule {
		return hours{alike: len(all)}
	}
	h := hours{zone: r.zone().String(), alike: alike(all), request: r, now: l.now().UnixMicro()}
	h.lists = r.lists(r.zone(), h.now)
	return h
}

// said is the request's, where there are quiet hours.
func (h hours) said(r *Request) int64 {
	if h.zone == "" {
		return 0
	}
	return r.said()
}

// in returns what the first one says by that zone. By one that this machine does not know it
// is what its own says.
func (h hours) in(name string) hours {
	h.zone = name
	if in, err := zone.Load(name); err == nil {
		h.lists = h.request.lists(in, h.now)
	}
	return h
}

// closes reports whether quiet hours hold the request within a second, so that a claim would be
// in vain.
func (l *Redis) closes(r *Request) bool {
	if p, _ := r.quietPolicy(); p == nil {
		return false
	}
	now := l.now().UnixMicro()
	return r.until(now, now+inMicros) > 0
}
