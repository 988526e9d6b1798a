package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/compare"
)

// A comparison is what the command's flags say.
type comparison struct {
	arrivals string
	as       []string
	together bool
	svg      string
	json     *bool
}

func newLimitsCompare() *cobra.Command {
	var c comparison
	cmd := &cobra.Command{
		Use:   "compare [FILE]",
		Short: "Replay arrivals through limits, and say what each lets through",
		Long: `compare replays arrivals through limits, in virtual time and in memory, and says
for each limit how many it admits and denies when each arrival asks once; the most
that it admits in any period of its first rate, and how many come sooner than its
rates allow; how long they wait when all that are denied come back at the instant
they are told; what it takes of Redis's memory, and how many commands a decision.
Then it says what each limit lets through at worst, and after which history.

FILE is a ledger of simulate or a trace, {"t":MS,"id":ID} on each line; - is
standard input. Of a ledger each token has a limit of its own, of a trace each ID.
Instead of a file, --arrivals makes some up: poisson:RATE for five minutes,
burst:COUNT at once, or hourly, two hours that are busiest when an hour begins.

SPEC is a limit as the configuration writes it: {min_gap: 1s, rates: [10/1m]} for a
user's, {rate: 600/1m, algorithm: token_bucket, burst: 100} for a quota. The
algorithms are rolling, and token_bucket, leaky_bucket, fixed_window and
sliding_window; those that others publish, faults included, are published_rolling,
published_window, published_counters, published_bucket and weighted_window. With
promise: true the rate holds in any period, as that of an app's quota does. Without
--as all algorithms are compared, at 600/1m.`,
		Example: `  pushpace limits compare ledger.jsonl --as now='{min_gap: 1s, rates: [10/1m]}' --as tighter='{rates: [5/1h]}'
  pushpace limits compare ledger.jsonl --together --as quota='{rate: 6000/1m, promise: true}'
  pushpace limits compare --arrivals poisson:20/s --svg limits.svg`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(args, cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.StringVar(&c.arrivals, "arrivals", "", "make arrivals `UP`: poisson:RATE, burst:COUNT or hourly")
	f.StringArrayVar(&c.as, "as", nil, "compare this limit, `NAME=SPEC`; may be repeated")
	f.BoolVar(&c.together, "together", false, "have one limit for all that arrive, as a quota is")
	f.StringVar(&c.svg, "svg", "", "draw the arrivals, and what each limit admits, into this `FILE`")
	c.json = jsonFlag(cmd)
	complete(cmd, "arrivals", "poisson:20/s", "burst:1000", "hourly")
	return cmd
}

func (c *comparison) run(args []string, out io.Writer) error {
	contestants, err := c.contestants()
	if err != nil {
		return misusedf("--as: %w", err)
	}
	arrivals, err := c.read(args)
	if err != nil {
		return misused(err)
	}
	comparison, err := compare.Replay(arrivals, contestants)
	if err != nil {
		return err
	}
	if c.svg != "" {
		if err := os.WriteFile(c.svg, comparison.Draw(), 0o644); err != nil {
			return misusedf("--svg: %w", err)
		}
	}
	if *c.json {
		return printJSON(out, comparison.Summary())
	}
	if err := comparison.WriteTable(out); err != nil {
		return err
	}
	return comparison.WriteWorst(out)
}

func (c *comparison) contestants() ([]compare.Contestant, error) {
	if len(c.as) == 0 {
		return compare.Default(), nil
	}
	return compare.Parse(c.as)
}

func (c *comparison) read(args []string) (*compare.Arrivals, error) {
	switch {
	case (len(args) == 1) == (c.arrivals != ""):
		return nil, errors.New("limits compare: want a FILE or --arrivals, one of them")
	case c.arrivals != "":
		arrivals, err := compare.Synthesize(c.arrivals)
		if err != nil {
			return nil, fmt.Errorf("--arrivals: %w", err)
		}
		return arrivals, nil
	}
	in, _, err := openInput(args[0], os.Stdin)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return compare.Read(in, inputName(args[0]), c.together)
}
