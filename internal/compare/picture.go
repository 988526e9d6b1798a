package compare

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// parts is of how many parts the picture's time is.
const parts = 160

// An axis is the picture's time: from the first arrival to the last one, or for as
// long as the longest period.
type axis struct{ from, width int64 } // µs

func axisOf(a *Arrivals, contestants []Contestant) axis {
	length := a.Span().Microseconds()
	for _, c := range contestants {
		for _, r := range c.rates() {
			length = max(length, r.Period.Microseconds())
		}
	}
	return axis{a.at[0], length/parts + 1}
}

// part returns in which part an instant is, and whether the picture has it.
func (x axis) part(at int64) (int, bool) {
	part := (at - x.from) / x.width
	return int(part), part < parts
}

// Measures of the picture, in px.
const (
	partWide = 4
	barHigh  = 36
	bandHigh = 52
	head     = 48
	told     = 190 // on the right of the bands
	nameWide = 7.3 // a character
	textWide = 6.1
	longest  = 40 // characters of a limit
)

const style = `
.back{fill:#fff}.name{fill:#1e293b;font:12px monospace}.text{fill:#475569;font:10px monospace}
.axis{stroke:#94a3b8}.arrived{fill:#d5dce6}.admitted{fill:#2563eb}.soon{fill:#c2410c}
@media (prefers-color-scheme:dark){
.back{fill:#0f172a}.name{fill:#e2e8f0}.text{fill:#a3b1c6}
.axis{stroke:#64748b}.arrived{fill:#3b495f}.admitted{fill:#60a5fa}.soon{fill:#fb923c}
}`

// Draw draws the arrivals over time, and below them what each contestant admits, as SVG.
func (c *Comparison) Draw() []byte {
	a, x, left := c.arrivals, c.axis, 0.
	arrived, highest := make([]int, parts), 1
	for _, at := range a.at {
		if part, shown := x.part(at); shown {
			arrived[part]++
			highest = max(highest, arrived[part])
		}
	}
	for _, r := range c.results {
		left = max(left, nameWide*float64(len(r.name)), textWide*float64(len(cut(r.limit))))
		for _, n := range r.picture {
			highest = max(highest, n)
		}
	}
	plot := int(left) + 24
	wide, foot := plot+parts*partWide+told, head+(len(c.results)+1)*bandHigh
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="t d">`+"\n",
		wide, foot+32, wide, foot+32)
	fmt.Fprintf(&b, "<title id=\"t\">What limits admit</title>\n<desc id=\"d\">%d arrivals, and below them what each limit admits of them over time.</desc>\n", a.Len())
	fmt.Fprintf(&b, "<style>%s\n</style>\n<rect class=\"back\" width=\"%d\" height=\"%d\"/>\n", style, wide, foot+32)
	fmt.Fprintf(&b, "<defs>%s</defs>\n", bars("", ` id="arrived"`, arrived, highest, func(int) bool { return true }))
	fmt.Fprintf(&b, `<g class="text"><rect class="arrived" x="%d" y="14" width="10" height="10"/><text x="%d" y="23">arrive</text>`, plot, plot+16)
	fmt.Fprintf(&b, `<rect class="admitted" x="%d" y="14" width="10" height="10"/><text x="%d" y="23">are admitted</text>`, plot+80, plot+96)
	fmt.Fprintf(&b, `<rect class="soon" x="%d" y="14" width="10" height="10"/><text x="%d" y="23">and some of them sooner than the rate allows</text></g>`+"\n", plot+190, plot+206)
	band := func(i int, name, limit, first, second string, inside func()) {
		fmt.Fprintf(&b, "<g transform=\"translate(0 %d)\">\n", head+i*bandHigh)
		fmt.Fprintf(&b, `<text class="name" x="12" y="16">%s</text><text class="text" x="12" y="31">%s</text>`+"\n", name, limit)
		fmt.Fprintf(&b, "<g transform=\"translate(%d 0)\"><use href=\"#arrived\" class=\"arrived\"/>", plot)
		inside()
		fmt.Fprintf(&b, "<path class=\"axis\" d=\"M0 %d.5h%d\"/></g>\n", barHigh, parts*partWide)
		fmt.Fprintf(&b, `<text class="text" x="%d" y="16">%s</text><text class="text" x="%d" y="31">%s</text></g>`+"\n",
			plot+parts*partWide+12, first, plot+parts*partWide+12, second)
	}
	band(0, "arrivals", "", fmt.Sprint(a.Len()), "in "+throttle.FormatPeriod(a.Span().Round(time.Second)), func() {})
	for i, r := range c.results {
		told := fmt.Sprintf("%d in %s", r.most, throttle.FormatPeriod(r.rate.Period))
		if r.violations > 0 {
			told += fmt.Sprintf(", %d too soon", r.violations)
		}
		band(i+1, r.name, cut(r.limit), fmt.Sprintf("%d admitted", r.admitted), told, func() {
			b.WriteString(bars("admitted", "", r.picture, highest, func(part int) bool { return !r.broken[part] }))
			b.WriteString(bars("soon", "", r.picture, highest, func(part int) bool { return r.broken[part] }))
		})
	}
	for at := time.Duration(0); at < x.length(); at += x.step() {
		px := plot + int(at.Microseconds()*partWide/x.width)
		fmt.Fprintf(&b, `<path class="axis" d="M%d.5 %dv4"/><text class="text" x="%d" y="%d">%s</text>`+"\n", px, foot, px, foot+16, throttle.FormatPeriod(at))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// bars draws those of the parts that are picked.
func bars(class, attributes string, counts []int, highest int, picked func(part int) bool) string {
	var d strings.Builder
	for part, n := range counts {
		if n > 0 && picked(part) {
			high := max(1, n*barHigh/highest)
			fmt.Fprintf(&d, "M%d %dv-%dh%dv%dz", part*partWide, barHigh, high, partWide, high)
		}
	}
	if class != "" {
		attributes += ` class="` + class + `"`
	}
	return fmt.Sprintf(`<path%s d="%s"/>`, attributes, d.String())
}

func cut(limit string) string {
	if len(limit) > longest {
		return limit[:longest-3] + "..."
	}
	return limit
}

func (x axis) length() time.Duration { return time.Duration(x.width*parts) * time.Microsecond }

var steps = []time.Duration{
	time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// step is how far apart the axis's instants are: eight of them, or days of which there
// are as few.
func (x axis) step() time.Duration {
	for _, step := range steps {
		if x.length() <= 8*step {
			return step
		}
	}
	day := 24 * time.Hour
	return (x.length()/8 + day - 1) / day * day
}
