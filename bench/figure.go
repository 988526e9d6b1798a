package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/throttle"
	meters "github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/throttle/published"
)

// The figure's arrivals come at random times, at twice the allowed rate.
const (
	arriveFor   = 5 * time.Minute
	arriveEvery = 50 * time.Millisecond // on average
)

var figureRate = throttle.Rate{Count: 600, Period: time.Minute}

// A row shows one limiter and the arrivals that it admits, in virtual time.
type row struct {
	name     string
	take     func(now time.Time) (admitted bool, left time.Duration, err error)
	admitted []time.Duration // since the first arrival
}

// figureBench draws into the file of -svg the admissions of each limiter for the same arrivals.
func figureBench(ctx context.Context, r *run) (map[string]any, error) {
	if r.svg == "" {
		return nil, errors.New("figure: want -svg FILE")
	}
	began := time.Unix(1_800_000_000, 0).UTC() // the start of a minute
	var arrivals []time.Duration
	random := rand.New(rand.NewPCG(1, 2))
	for at := time.Duration(0); at < arriveFor; at += time.Duration(random.ExpFloat64() * float64(arriveEvery)) {
		arrivals = append(arrivals, at.Truncate(time.Microsecond))
	}
	rows, stop, err := figureRows(ctx, began)
	defer stop()
	if err != nil {
		return nil, err
	}
	admitted, most := map[string]int{}, map[string]int{}
	for _, row := range rows {
		fmt.Fprintln(os.Stderr, row.name)
		for _, at := range arrivals {
			yes, left, err := row.take(began.Add(at))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", row.name, err)
			}
			if yes {
				row.admitted = append(row.admitted, at+left)
			}
		}
		admitted[row.name], most[row.name] = len(row.admitted), mostIn(row.admitted)
	}
	figures := map[string]any{"arrivals": len(arrivals), "admitted": admitted, "most_in_a_period": most}
	return figures, os.WriteFile(r.svg, drawFigure(arrivals, rows), 0o644)
}

// figureRows returns a row for each limiter, before the first arrival.
func figureRows(ctx context.Context, began time.Time) ([]*row, func(), error) {
	server, err := miniredis.Run()
	if err != nil {
		return nil, func() {}, err
	}
	server.ClockTTL(true)
	server.SetTime(began)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true})
	stop := func() { _ = client.Close(); server.Close() }
	clock := began
	now := func() time.Time { return clock }
	at := func(take func() (bool, time.Duration, error)) func(time.Time) (bool, time.Duration, error) {
		return func(t time.Time) (bool, time.Duration, error) {
			clock = t
			server.SetTime(t)
			return take()
		}
	}
	rolling, err := throttle.New(client, throttle.Options{Now: now, Timeout: time.Minute})
	if err != nil {
		return nil, stop, err
	}
	asked := 0
	request := throttle.Request{User: "u", Scopes: []throttle.Scope{{Name: throttle.General, Policy: throttle.Policy{Rates: []throttle.Rate{figureRate}}}}}
	rows := []*row{{name: "rolling", take: at(func() (bool, time.Duration, error) {
		asked++
		request.ID = fmt.Sprint(asked)
		d, err := rolling.Acquire(ctx, request)
		return d.Status == throttle.Granted, 0, err
	})}}
	metered := func(name string, spec meters.Spec, ahead time.Duration) {
		spec.Rates = []throttle.Rate{figureRate}
		if name == "quota" {
			spec = spec.Promise()
		}
		m := meters.NewRedis(client, name)
		rows = append(rows, &row{name: name, take: at(func() (bool, time.Duration, error) {
			a, err := m.Take(ctx, "u", spec, meters.Ask{Least: 1, Most: 1, Ahead: ahead})
			return a.Units > 0, a.Left, err
		})})
	}
	metered("quota", meters.Spec{}, 0)
	metered("token_bucket", meters.Spec{}, 0)
	metered("leaky_bucket", meters.Spec{Algorithm: meters.LeakyBucket}, figureRate.Period)
	metered("fixed_window", meters.Spec{Algorithm: meters.FixedWindow}, 0)
	metered("sliding_window", meters.Spec{Algorithm: meters.SlidingWindow}, 0)

	o := published.Options{Interval: figureRate.Period, Max: figureRate.Count, Now: now, Timeout: time.Minute}
	limiter, err := published.NewMemory(o)
	if err != nil {
		return nil, stop, err
	}
	counters, err := published.NewCounters(client, []throttle.Rate{figureRate}, o)
	if err != nil {
		return nil, stop, err
	}
	window, err := published.NewWeightedWindow(figureRate, now)
	if err != nil {
		return nil, stop, err
	}
	bucket, err := published.NewFlooredBucket(figureRate, figureRate.Count, now)
	if err != nil {
		return nil, stop, err
	}
	answer := func(name string, limit func() (published.Result, error)) {
		rows = append(rows, &row{name: name, take: at(func() (bool, time.Duration, error) {
			r, err := limit()
			return !r.Blocked, 0, err
		})})
	}
	answer("published.Limiter", func() (published.Result, error) { return limiter.Limit(ctx, "u") })
	answer("Counters", func() (published.Result, error) { return counters.Limit(ctx, "u") })
	answer("WeightedWindow", func() (published.Result, error) { return window.Limit("u"), nil })
	answer("FlooredBucket", func() (published.Result, error) { return bucket.Limit("u"), nil })
	return rows, func() { _ = rolling.Close(); stop() }, nil
}

// mostIn returns the largest number of admissions within any period.
func mostIn(admitted []time.Duration) int {
	most, from := 0, 0
	for i, at := range admitted {
		for at-admitted[from] >= figureRate.Period {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}

// Measures of the figure, in px.
const (
	parts    = 160 // number of bars over arriveFor
	partWide = 4
	barHigh  = 36
	bandHigh = 52
	headHigh = 12
	plotLeft = 150
	tellWide = 190
)

const figureStyle = `
.back{fill:#fff}.name{fill:#1e293b;font:12px monospace}.text{fill:#475569;font:10px monospace}
.axis{stroke:#94a3b8}.arrived{fill:#d5dce6}.admitted{fill:#2563eb}
@media (prefers-color-scheme:dark){
.back{fill:#0f172a}.name{fill:#e2e8f0}.text{fill:#a3b1c6}
.axis{stroke:#64748b}.arrived{fill:#3b495f}.admitted{fill:#60a5fa}
}`

// drawFigure draws the arrivals over time and each limiter's admissions, as SVG.
func drawFigure(arrivals []time.Duration, rows []*row) []byte {
	arrived := inParts(arrivals)
	highest := 1
	for _, row := range append([]*row{{admitted: arrivals}}, rows...) {
		for _, n := range inParts(row.admitted) {
			highest = max(highest, n)
		}
	}
	wide, high := plotLeft+parts*partWide+tellWide, headHigh+(len(rows)+1)*bandHigh
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="t d">`+"\n", wide, high+32, wide, high+32)
	fmt.Fprintf(&b, "<title id=\"t\">What limiters admit</title>\n<desc id=\"d\">%d arrivals in grey, and in blue what each limiter admits of them over time.</desc>\n", len(arrivals))
	fmt.Fprintf(&b, "<style>%s\n</style>\n<rect class=\"back\" width=\"%d\" height=\"%d\"/>\n", figureStyle, wide, high+32)
	band := func(i int, name string, admitted []int, told ...string) {
		fmt.Fprintf(&b, "<g transform=\"translate(0 %d)\"><text class=\"name\" x=\"12\" y=\"22\">%s</text>\n", headHigh+i*bandHigh, name)
		fmt.Fprintf(&b, "<g transform=\"translate(%d 0)\">%s%s<path class=\"axis\" d=\"M0 %d.5h%d\"/></g>\n",
			plotLeft, bars("arrived", arrived, highest), bars("admitted", admitted, highest), barHigh, parts*partWide)
		for k, line := range told {
			fmt.Fprintf(&b, "<text class=\"text\" x=\"%d\" y=\"%d\">%s</text>", plotLeft+parts*partWide+12, 16+15*k, line)
		}
		b.WriteString("</g>\n")
	}
	band(0, "arrivals", nil, fmt.Sprint(len(arrivals)), "in "+throttle.FormatPeriod(arriveFor))
	for i, row := range rows {
		band(i+1, row.name, inParts(row.admitted), fmt.Sprintf("%d admitted", len(row.admitted)),
			fmt.Sprintf("at most %d in %s", mostIn(row.admitted), throttle.FormatPeriod(figureRate.Period)))
	}
	for at := time.Duration(0); at < arriveFor; at += time.Minute {
		x := plotLeft + int(at*parts*partWide/arriveFor)
		fmt.Fprintf(&b, `<path class="axis" d="M%d.5 %dv4"/><text class="text" x="%d" y="%d">%s</text>`+"\n", x, high, x, high+16, throttle.FormatPeriod(at))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// inParts counts the instants in each part of arriveFor.
func inParts(instants []time.Duration) []int {
	counts := make([]int, parts)
	for _, at := range instants {
		if part := int(at * parts / arriveFor); part < parts {
			counts[part]++
		}
	}
	return counts
}

func bars(class string, counts []int, highest int) string {
	var d strings.Builder
	for part, n := range counts {
		if n > 0 {
			high := max(1, n*barHigh/highest)
			fmt.Fprintf(&d, "M%d %dv-%dh%dv%dz", part*partWide, barHigh, high, partWide, high)
		}
	}
	return fmt.Sprintf(`<path class="%s" d="%s"/>`, class, d.String())
}
