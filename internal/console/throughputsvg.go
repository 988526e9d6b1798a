package console

import (
	"time"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/words"
)

// A throughputChart shows the workers' throughput, one column per bucket.
type throughputChart struct {
	Ranges  []link
	Columns []column
	Scale   []chartNumber // at the left
	Ticks   []chartTick   // below
	Buckets []operate.Bucket
	// The sums of all columns.
	Sent, Deferred, Failed int64
}

// A column stacks sent notifications at the bottom, then deferred, then failed ones.
type column struct {
	X, Width               int
	Sent, Deferred, Failed span
	Title                  string
}

// A span is a part of a column, from its upper end down.
type span struct{ Y, Height int }

// A chartNumber is a number on the scale, and a chartTick an instant below the chart.
type (
	chartNumber struct {
		Y    int
		Text string
	}
	chartTick struct {
		X  int
		At time.Time
	}
)

// The chart's dimensions; overview.html repeats them.
const (
	chartLeft, chartWidth = 64, 656 // of the columns, without the scale
	chartTop, chartBottom = 16, 176
	lastTick              = 652 // the last column with room for an instant
)

// tickEvery is the distance of the instants below a chart.
var tickEvery = map[operate.Range]time.Duration{operate.QuarterHour: 5 * time.Minute, operate.Hour: 15 * time.Minute, operate.Day: 6 * time.Hour}

// drawThroughput draws the throughput of a range.
func drawThroughput(t *operate.Throughput, within operate.Range) *throughputChart {
	c := &throughputChart{Buckets: t.Buckets}
	for _, r := range operate.Ranges {
		c.Ranges = append(c.Ranges, link{string(r), address(Path, field{"range", string(r)}), r == within})
	}
	most := int64(1)
	for _, b := range t.Buckets {
		most = max(most, b.Sent+b.Deferred+b.Failed)
		c.Sent, c.Deferred, c.Failed = c.Sent+b.Sent, c.Deferred+b.Deferred, c.Failed+b.Failed
	}
	top := roundUp(most)
	height := func(n int64) int {
		if n == 0 {
			return 0
		}
		return max(1, int(n*(chartBottom-chartTop)/top))
	}
	for i, b := range t.Buckets {
		x, end := chartLeft+i*chartWidth/len(t.Buckets), chartLeft+(i+1)*chartWidth/len(t.Buckets)
		col := column{X: x + 1, Width: max(1, end-x-2), Title: words.Grouped(b.Sent) + " sent, " + words.Grouped(b.Deferred) + " put off, " + words.Grouped(b.Failed) + " failed"}
		y := chartBottom
		for _, part := range []struct {
			n  int64
			to *span
		}{{b.Sent, &col.Sent}, {b.Deferred, &col.Deferred}, {b.Failed, &col.Failed}} {
			h := height(part.n)
			y -= h
			*part.to = span{y, h}
		}
		c.Columns = append(c.Columns, col)
		if every := tickEvery[within]; b.At.Equal(b.At.Truncate(every)) && x <= lastTick {
			c.Ticks = append(c.Ticks, chartTick{x, b.At})
		}
	}
	for i, n := range []int64{0, top / 2, top} {
		if n > 0 || i == 0 {
			c.Scale = append(c.Scale, chartNumber{chartBottom - int(n*(chartBottom-chartTop)/top) + 5, words.Grouped(n)})
		}
	}
	return c
}

// roundUp returns the smallest of 1, 2, 5, 10, 20, 50 and so on that is at least n.
func roundUp(n int64) int64 {
	for of := int64(1); ; of *= 10 {
		for _, times := range []int64{1, 2, 5} {
			if of*times >= n {
				return of * times
			}
		}
	}
}
