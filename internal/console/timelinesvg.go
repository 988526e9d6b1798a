package console

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rivo/uniseg"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/internal/words/timeline"
	"github.com/pushpace/pushpace/throttle"
)

// A picture is a user's timeline around now: a band for each scope, with what was sent
// and what waits, which entry each slot counts from, and each limit's window, in units
// of its own.
type picture struct {
	Width, Height int
	Title         string // for a reader who does not see it
	Now           int    // the column of now
	Ticks         []tick
	Bands         []band
	// Left are the scopes that there is no room for.
	Left int64
}

// A tick is an instant on the axis, by its distance from now and its time of day.
type tick struct {
	X           int
	Text, Clock label
}

// A label is words that begin there.
type label struct {
	X, Y  int
	Words legend
}

// A legend is a text in which instants, which the script writes in the reader's zone, and
// names, which may read from right to left, are told apart.
type legend []word

// A word is an instant, a name, or any other part of a text.
type word struct {
	Text string
	At   time.Time // zero for no instant
	Name bool
}

func plain(text string) legend { return legend{{Text: text}} }

// String returns the text.
func (w legend) String() string {
	var b strings.Builder
	for _, one := range w {
		b.WriteString(one.Text)
	}
	return b.String()
}

// A band is a scope.
type band struct {
	Name, Note label
	// Nights are what its quiet hours close, behind all that follows.
	Nights []shade
	// Marks are its entries, along Y; none where they are counted in Bars.
	Marks  []mark
	Bars   []bar
	Y      int
	Causes []cause
	Limits []limitBar
}

// A shade is a part of the axis, over a band's height.
type shade struct{ X, Y, Width, Height int }

// A mark is an entry.
type mark struct {
	X        int
	ID       string
	Booked   bool
	Critical bool
}

// A bar counts the entries of so much of the axis.
type bar struct {
	X, Height, Count int
	Booked           bool
}

// A cause leads from the entry that a slot counts from, or the picture's edge where that
// is further away, to the slot. Without a label it is an arc above the marks, and with
// one a line at Y, below them.
type cause struct {
	Waiter   *inspect.Waiter
	From, To int
	Y        int
	Label    label
}

// A limitBar is a limit's window that ends now, and when the next one is free.
type limitBar struct {
	Y, From, To int
	// Open says that the window begins before the picture does.
	Open  bool
	Full  bool
	Label label
	// Free is where the next one is free, 0 for now and for what is not known; Beyond says
	// that it is later than the picture reaches.
	Free   int
	Beyond bool
}

const (
	pictureWidth = 900
	margin       = 10 // for a mark at an end of the axis
	barWidth     = 8
	columns      = (pictureWidth - 2*margin) / barWidth
	// letter is the most that a column of text takes, of the picture's font.
	letter = 8

	mostBands = operate.MostScopes
	// mostMarks is how many entries of a band are drawn one by one.
	mostMarks = operate.MostAdmissions
	// labelled is how many causes of a band are told in words.
	labelled = 3
	// nameColumns is how much of a name is shown.
	nameColumns = 36

	axisHeight   = 44
	headHeight   = 22
	arcHeight    = 26
	marksHeight  = 20
	barsHeight   = 36
	causeHeight  = 26
	limitHeight  = 30
	bandDistance = 16
)

// A timeAxis has now in its middle, and reaches as far back as ahead.
type timeAxis struct {
	now  time.Time
	span time.Duration
}

// x returns the column of an instant, and false with the end that is nearer when the
// axis does not reach it.
func (a timeAxis) x(at time.Time) (x int, inside bool) {
	part := float64(at.Sub(a.now)) / float64(a.span)
	x = margin + int(math.Round((min(1, max(-1, part))+1)/2*(pictureWidth-2*margin)))
	return x, part >= -1 && part <= 1
}

// widthOf is the most that text takes.
func widthOf(text string) int { return letter * (uniseg.StringWidth(text) + 1) }

// beside returns the label around the column, as far as there is room.
func beside(x, y int, w legend) label {
	width := widthOf(w.String())
	return label{max(0, min(x-width/2, pictureWidth-width)), y, w}
}

// short is a name, cut where it is long.
func short(name string) string {
	name = words.Printable(name)
	if uniseg.StringWidth(name) <= nameColumns {
		return name
	}
	var b strings.Builder
	for g, left := uniseg.NewGraphemes(name), nameColumns-1; g.Next() && g.Width() <= left; left -= g.Width() {
		b.WriteString(g.Str())
	}
	return b.String() + "…"
}

// drawTimeline draws what there is within the span of now. critical reports whether one
// that was sent is.
func drawTimeline(t *inspect.Timeline, span time.Duration, critical func(id string) bool) *picture {
	a := timeAxis{t.Now, span}
	p := &picture{Width: pictureWidth, Title: "Timeline of " + words.Printable(t.User) + " in " + words.Printable(t.App)}
	p.Now, _ = a.x(t.Now)
	for i := range 5 {
		p.Ticks = append(p.Ticks, a.tick(time.Duration(i-2)*span/2))
	}
	y := axisHeight
	for _, s := range t.Scopes[:min(len(t.Scopes), mostBands)] {
		b, end := a.band(t, s, y, critical)
		b.Nights = a.nights(s.Quiet, y+headHeight, end)
		p.Bands = append(p.Bands, b)
		y = end + bandDistance
	}
	p.Height, p.Left = y, int64(max(0, len(t.Scopes)-mostBands))
	return p
}

func (a timeAxis) tick(d time.Duration) tick {
	at := a.now.Add(d)
	x, _ := a.x(at)
	text := "now"
	if d != 0 {
		text = map[bool]string{true: "+", false: "-"}[d > 0] + throttle.FormatPeriod(d.Abs())
	}
	return tick{x, beside(x, 14, plain(text)), beside(x, 30, legend{clock(at, a.now, false)})}
}

// band draws a scope from that height on, and returns where it ends.
func (a timeAxis) band(t *inspect.Timeline, s inspect.TimelineScope, y int, critical func(string) bool) (b band, end int) {
	name := "general"
	if s.Scope != throttle.General {
		name = short(s.Scope)
	}
	b.Name = label{0, y + 15, legend{{Text: name, Name: true}}}
	b.Note = label{X: widthOf(name) + letter, Y: y + 15}
	if y += headHeight; len(s.Limits) == 0 && s.Quiet == nil {
		b.Note.Words = plain(timeline.Unlimited(s))
		return b, y
	}
	earlier, later := 0, 0
	add := func(m mark, at time.Time) {
		var inside bool
		switch m.X, inside = a.x(at); {
		case inside:
			b.Marks = append(b.Marks, m)
		case at.Before(a.now):
			earlier++
		default:
			later++
		}
	}
	for _, e := range s.Admissions {
		add(mark{ID: e.ID, Critical: critical(e.ID)}, e.At)
	}
	sent := len(b.Marks)
	var bound []*inspect.Waiter
	for i := range t.Bookings {
		w := &t.Bookings[i]
		if counts(w, s.Scope) {
			add(mark{ID: w.ID, Booked: true, Critical: w.Critical}, w.Slot)
		}
		if _, inside := a.x(w.Slot); inside && w.Scope == s.Scope && w.After.ID != "" {
			bound = append(bound, w)
		}
	}
	note := fmt.Sprintf("%s sent, %s booked", words.Grouped(sent), words.Grouped(len(b.Marks)-sent))
	if s.Muted {
		note = "muted; " + note
	}
	if earlier > 0 {
		note += "; " + words.Grouped(earlier) + " earlier than the picture"
	}
	if later > 0 {
		note += "; " + words.Grouped(later) + " later"
	}
	switch {
	case len(b.Marks) > mostMarks:
		b.Y = y + barsHeight
		b.Bars, b.Marks = barsOf(b.Marks), nil
		note += fmt.Sprintf("; of each %s, %s at most", words.Span(2*a.span/columns), words.Grouped(mostOf(b.Bars)))
	case len(bound) > labelled:
		b.Y = y + arcHeight + marksHeight/2
	default:
		b.Y = y + marksHeight/2
	}
	b.Note.Words = plain(note)
	y = b.Y + marksHeight/2
	for i, w := range bound {
		c := cause{Waiter: w}
		c.From, _ = a.x(w.After.At)
		c.To, _ = a.x(w.Slot)
		if i < labelled {
			y += causeHeight
			c.Y = y - 6
			c.Label = c.label(causeText(w, timeline.Period(t, w), a.now))
		} else if b.Bars != nil {
			break // it would lead from one bar to another
		}
		b.Causes = append(b.Causes, c)
	}
	if len(bound) > 0 {
		y += limitHeight - causeHeight
	}
	for _, w := range s.Limits {
		b.Limits = append(b.Limits, a.limit(w, y))
		y += limitHeight
	}
	return b, y
}

// nights are the parts of the axis that are closed, from that height on to another.
func (a timeAxis) nights(q *inspect.Quiet, y, end int) (all []shade) {
	if q == nil {
		return nil
	}
	for _, c := range q.Closed {
		from, _ := a.x(c.From)
		until, _ := a.x(c.Until)
		if from < until {
			all = append(all, shade{from, y, until - from, end - y})
		}
	}
	return all
}

// label returns the text above the line, or before it where that is short: there, no
// other line crosses it.
func (c cause) label(w legend) label {
	if width := widthOf(w.String()); c.To-c.From < width && width < c.From {
		return label{c.From - width, c.Y + 4, w}
	}
	return beside((c.From+c.To)/2, c.Y-5, w)
}

// counts reports whether who waits counts under the scope's limits.
func counts(w *inspect.Waiter, scope string) bool {
	return scope == throttle.General || scope == cmp.Or(w.Category, w.Scope)
}

// barsOf counts the marks.
func barsOf(marks []mark) []bar {
	type place struct {
		n      int
		booked bool
	}
	counts, most := map[place]int{}, 0
	for _, m := range marks {
		at := place{min((m.X-margin)/barWidth, columns-1), m.Booked}
		counts[at]++
		most = max(most, counts[at])
	}
	var bars []bar
	for at, n := range counts {
		bars = append(bars, bar{margin + at.n*barWidth, max(2, n*(barsHeight-6)/most), n, at.booked})
	}
	slices.SortFunc(bars, func(a, b bar) int {
		return cmp.Or(cmp.Compare(a.X, b.X), cmp.Compare(strconv.FormatBool(a.Booked), strconv.FormatBool(b.Booked)))
	})
	return bars
}

// mostOf is what the highest of the bars counts.
func mostOf(bars []bar) (most int) {
	for _, b := range bars {
		most = max(most, b.Count)
	}
	return most
}

func (a timeAxis) limit(w inspect.Window, y int) limitBar {
	b := limitBar{Y: y + 18, Full: w.Used >= w.Count}
	var inside bool
	b.From, inside = a.x(a.now.Add(-time.Duration(w.Period)))
	b.To, _ = a.x(a.now)
	b.Open = !inside
	text := timeline.Rule(w) + ": " + timeline.Used(w) + ", "
	said := plain(text + "free now")
	switch {
	case w.Free.IsZero():
		said = plain(text + "when the next is free is not known")
	case w.Free.After(a.now):
		b.Free, inside = a.x(w.Free)
		b.Beyond = !inside
		said = legend{{Text: text + "next free in " + words.Span(w.Free.Sub(a.now)) + ", at "}, clock(w.Free, a.now, time.Duration(w.Period) < time.Minute)}
	}
	b.Label = label{min(b.From, pictureWidth-widthOf(said.String())), y + 13, said}
	return b
}

// causeText says why a slot is when it is, as 14:03:07 = 13:03:07 order-17 + 1h. What is
// added exactly is told to the millisecond where seconds would not add up.
func causeText(w *inspect.Waiter, period time.Duration, now time.Time) legend {
	after, slot := w.After.At, w.Slot
	added := " + " + throttle.FormatPeriod(period)
	say := func(relation string, milliseconds bool) legend {
		return legend{clock(slot, now, milliseconds), {Text: relation}, clock(after, now, milliseconds), {Text: " "}, {Text: short(w.After.ID), Name: true}, {Text: added}}
	}
	switch late := slot.Truncate(time.Millisecond).Sub(after.Truncate(time.Millisecond)) - period; {
	case !timeline.Exact(w, period) && late > 0:
		return say(", behind others, after ", false)
	case !timeline.Exact(w, period):
		return say(", to be put off until ", false)
	case period >= time.Minute && slot.Truncate(time.Second).Sub(after.Truncate(time.Second)) == period:
		return say(" = ", false)
	case late >= time.Millisecond:
		added += " + " + late.String()
	}
	return say(" = ", true)
}

// clock is the time of day, of another one with its date.
func clock(t, now time.Time, milliseconds bool) word {
	layout := "15:04:05"
	if milliseconds {
		layout = "15:04:05.000"
	}
	if t.UTC().Format(time.DateOnly) != now.UTC().Format(time.DateOnly) {
		layout = "Jan 2 " + layout
	}
	return word{Text: t.UTC().Format(layout), At: t}
}

// The spans that a picture is asked for by name.
var spans = []struct {
	Name string
	Of   time.Duration
}{{"1m", time.Minute}, {"10m", 10 * time.Minute}, {"1h", time.Hour}, {"24h", 24 * time.Hour}, {"7d", 7 * 24 * time.Hour}}

// steps are those that autoSpan takes: few, so that a picture that is kept up to date
// does not change its scale all the time.
var steps = []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour}

// autoSpan reaches to the next slot, and back to the entry that it counts from; where
// nobody waits, to when the limits let the next one pass, or back to the newest entry.
func autoSpan(t *inspect.Timeline) time.Duration {
	var reach time.Duration
	to := func(at time.Time) { reach = max(reach, at.Sub(t.Now).Abs()) }
	if next := timeline.Next(t); next != nil {
		if to(next.Slot); next.After.ID != "" {
			to(next.After.At)
		}
	} else {
		for _, s := range t.Scopes {
			if end := s.Quiet.End(t.Now); !end.IsZero() {
				to(end)
			}
			for _, w := range s.Limits {
				if w.Free.After(t.Now) {
					to(w.Free)
					to(w.Free.Add(-time.Duration(w.Period)))
				}
			}
		}
		if n := len(t.Scopes[0].Admissions); reach == 0 && n > 0 {
			to(t.Scopes[0].Admissions[n-1].At)
		} else if reach == 0 {
			reach = time.Minute
		}
	}
	for _, step := range steps {
		if reach < step*9/10 { // not at the very edge
			return step
		}
	}
	return steps[len(steps)-1]
}
