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

// A picture is a user's timeline around now, in units of the SVG. Each scope has a band with its
// sent and waiting notifications, the entries that slots count from, and the limits' windows.
type picture struct {
	Width, Height int
	Title         string // for screen readers
	Now           int    // the x coordinate of now
	Ticks         []tick
	Bands         []band
	// Left is the number of scopes for which there is no room.
	Left int64
}

// A tick is an instant on the axis: its distance from now, and its time of day.
type tick struct {
	X           int
	Text, Clock label
}

// A label is a text that begins at X, Y.
type label struct {
	X, Y  int
	Words legend
}

// A legend is a text with its instants and names marked. The script writes instants in the
// reader's zone; names may read from right to left.
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
	// Nights are the scope's quiet hours, drawn behind the rest.
	Nights []shade
	// Marks are the scope's entries, along Y; none if Bars count them.
	Marks  []mark
	Bars   []bar
	Y      int
	Causes []cause
	Limits []limitBar
}

// A shade is a part of the axis, over a band's height.
type shade struct{ X, Y, Width, Height int }

// A mark is a sent or waiting notification.
type mark struct {
	X        int
	ID       string
	Booked   bool
	Critical bool
}

// A bar counts the entries in a part of the axis.
type bar struct {
	X, Height, Count int
	Booked           bool
}

// A cause leads from the entry that a slot counts from to the slot, starting at the picture's
// edge if the entry is beyond it. A labelled cause is a stroke at Y, below the marks; any other is
// an arc above them.
type cause struct {
	Waiter   *inspect.Waiter
	From, To int
	Y        int
	Label    label
}

// A limitBar is a limit's window that ends now, and the instant of the next free admission.
type limitBar struct {
	Y, From, To int
	// Open means that the window begins before the picture does.
	Open  bool
	Full  bool
	Label label
	// Free is the x coordinate of the next free admission, 0 for now or unknown. Beyond means that
	// the admission is later than the picture's end.
	Free   int
	Beyond bool
}

const (
	pictureWidth = 900
	margin       = 10 // for a mark at an end of the axis
	barWidth     = 8
	columns      = (pictureWidth - 2*margin) / barWidth
	// letter is the maximum width of a column of text in the picture's font.
	letter = 8

	mostBands = operate.MostScopes
	// mostMarks bounds the entries of a band that are drawn one by one.
	mostMarks = operate.MostAdmissions
	// mostLabels bounds the labelled causes of a band.
	mostLabels = 3
	// nameColumns bounds the columns of a name that are shown.
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

// A timeAxis has now in its middle, and covers span on either side.
type timeAxis struct {
	now  time.Time
	span time.Duration
}

// x returns the x coordinate of an instant. Beyond the axis it returns the nearer end, and false.
func (a timeAxis) x(at time.Time) (x int, inside bool) {
	part := float64(at.Sub(a.now)) / float64(a.span)
	x = margin + int(math.Round((min(1, max(-1, part))+1)/2*(pictureWidth-2*margin)))
	return x, part >= -1 && part <= 1
}

// widthOf returns the maximum width of a text.
func widthOf(text string) int { return letter * (uniseg.StringWidth(text) + 1) }

// beside returns a label centred at x, as far as the picture's edges allow.
func beside(x, y int, w legend) label {
	width := widthOf(w.String())
	return label{max(0, min(x-width/2, pictureWidth-width)), y, w}
}

// short returns a printable name, truncated if it is long.
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

// drawTimeline draws the timeline within span of now. critical reports whether a sent
// notification was critical.
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

// band draws a scope from height y on, and returns its lower end.
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
	case len(bound) > mostLabels:
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
		if i < mostLabels {
			y += causeHeight
			c.Y = y - 6
			c.Label = c.label(causeText(w, timeline.Period(t, w), a.now))
		} else if b.Bars != nil {
			break // an arc would connect bars, not entries
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

// nights returns the quiet hours on the axis, from height y to end.
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

// label returns the text above the cause's stroke, or before a stroke that is too short: no other
// stroke crosses the text there.
func (c cause) label(w legend) label {
	if width := widthOf(w.String()); c.To-c.From < width && width < c.From {
		return label{c.From - width, c.Y + 4, w}
	}
	return beside((c.From+c.To)/2, c.Y-5, w)
}

// counts reports whether a waiting notification counts under the scope's limits.
func counts(w *inspect.Waiter, scope string) bool {
	return scope == throttle.General || scope == cmp.Or(w.Category, w.Scope)
}

// barsOf counts the marks in columns of barWidth.
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

// mostOf returns the largest count of the bars.
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

// causeText explains a slot as a sum: 14:03:07 = 13:03:07 order-17 + 1h. It writes milliseconds if
// the sum is exact but whole seconds would not add up.
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

// clock returns the time of day, with the date if it is not today's.
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

// spans are the spans that an address may name.
var spans = []struct {
	Name string
	Of   time.Duration
}{{"1m", time.Minute}, {"10m", 10 * time.Minute}, {"1h", time.Hour}, {"24h", 24 * time.Hour}, {"7d", 7 * 24 * time.Hour}}

// steps are the spans that autoSpan chooses from: few, so that the scale of a live picture rarely
// changes.
var steps = []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour}

// autoSpan returns a span that shows the next slot and the entry it counts from. If nothing
// waits, it shows the end of quiet hours and the windows of the limits in use, or else the newest
// entry.
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
