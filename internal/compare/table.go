package compare

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// WriteTable writes the results as a table.
func (c *Comparison) WriteTable(out io.Writer) error {
	a := c.arrivals
	fmt.Fprintf(out, "%d arrivals in %s, of %d that have a limit of their own.\n\n", a.Len(), throttle.FormatPeriod(a.Span().Round(time.Millisecond)), a.Keys())
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tLIMIT\tADMITTED\tDENIED\tMOST IN A PERIOD\tVIOLATIONS\tMEAN WAIT\t99 OF 100\tGAVE UP\tBYTES\tCOMMANDS")
	for _, r := range c.results {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\t%d\t%d\t%.2f\n", r.name, r.limit, r.admitted, r.denied, r.most, r.violations,
			r.mean.Round(time.Millisecond), r.high.Round(time.Millisecond), r.gaveUp, r.bytes, r.commands)
	}
	return w.Flush()
}

// WriteWorst writes what each contestant lets through at worst, and when.
func (c *Comparison) WriteWorst(out io.Writer) error {
	fmt.Fprintln(out, "\nAt worst, after a long quiet and from a border of the clock's periods on:")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, contestant := range c.contestants {
		worst, err := contestant.worst()
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s\t%s\n", contestant.Name, worst)
	}
	return w.Flush()
}

// A Summary is the results in the shape in which they are printed as JSON.
type Summary struct {
	Arrivals    int                `json:"arrivals"`
	Contestants map[string]Outcome `json:"contestants"`
}

// An Outcome is a contestant's result.
type Outcome struct {
	Admitted     int     `json:"admitted"`
	Denied       int     `json:"denied"`
	MostInPeriod int     `json:"most_in_period"`
	Violations   int     `json:"violations"`
	WaitMS       WaitMS  `json:"wait_ms"`
	Bytes        int     `json:"bytes"`
	Commands     float64 `json:"commands"`
}

// WaitMS is how long those wait who come back when they are told, in ms.
type WaitMS struct {
	Mean float64 `json:"mean"`
	P99  float64 `json:"p99"`
}

// Summary returns the results by the contestants' names.
func (c *Comparison) Summary() Summary {
	s := Summary{c.arrivals.Len(), map[string]Outcome{}}
	for _, r := range c.results {
		ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
		s.Contestants[r.name] = Outcome{r.admitted, r.denied, r.most, r.violations, WaitMS{ms(r.mean), ms(r.high)}, r.bytes, r.commands}
	}
	return s
}
