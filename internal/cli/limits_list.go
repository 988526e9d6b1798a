package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/api/apiclient"
	"github.com/pushpace/pushpace/internal/base/strictjson"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// sortedOverrides returns all overrides, sorted by app, user, category and quota.
func sortedOverrides(ctx context.Context, b *apiclient.Client) ([]limits.Override, error) {
	var all []limits.Override
	err := b.Overrides(ctx, func(override limits.Override) bool {
		all = append(all, override)
		return true
	})
	slices.SortFunc(all, func(a, b limits.Override) int {
		return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.User, b.User), cmp.Compare(a.Category, b.Category), cmp.Compare(a.Quota, b.Quota))
	})
	return all, err
}

func newLimitsList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the overrides and the mutes",
		Args:  cobra.NoArgs,
	}
	asJSON := jsonFlag(cmd)
	return operating(cmd, func(ctx context.Context, b *apiclient.Client, _ []string, out io.Writer) error {
		all, err := sortedOverrides(ctx, b)
		if err != nil {
			return err
		}
		if *asJSON {
			return printOverrides(out, all)
		}
		if len(all) == 0 {
			return none("Nothing is overridden.")
		}
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "APP\tUSER\tCATEGORY\tQUOTA\tLIMITS\tBY\tAT\tUNTIL")
		for _, override := range all {
			until := "-"
			if !override.Until.IsZero() {
				until = words.Stamp(override.Until)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", words.Quoted(override.App), words.Quoted(override.User), words.Quoted(override.Category), words.Quoted(override.Quota),
				words.Limits(&override), words.Quoted(override.By), words.Stamp(override.At), until)
		}
		return w.Flush()
	})
}

func printOverrides(out io.Writer, all []limits.Override) error {
	encoder := json.NewEncoder(out)
	for _, override := range all {
		if err := encoder.Encode(override); err != nil {
			return err
		}
	}
	return nil
}

func newLimitsExport() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print all overrides and mutes as lines of JSON, which import takes",
		Args:  cobra.NoArgs,
	}
	return operating(cmd, func(ctx context.Context, b *apiclient.Client, _ []string, out io.Writer) error {
		all, err := sortedOverrides(ctx, b)
		if err != nil {
			return err
		}
		return printOverrides(out, all)
	})
}

func newLimitsImport() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Set the overrides of a file of lines of JSON; - is standard input",
		Long: `import reads the output of export. If a line is invalid it sets nothing. It skips overrides
that have ended, and keeps overrides of other levels. The log names this command's user as
the operator.`,
		Example: "  pushpace limits export > overrides.ndjson && pushpace limits import overrides.ndjson",
		Args:    cobra.ExactArgs(1),
	}
	byFlag(cmd)
	dry := cmd.Flags().Bool("dry-run", false, "validate, and set nothing")
	asJSON := jsonFlag(cmd)
	return operating(cmd, func(ctx context.Context, b *apiclient.Client, args []string, out io.Writer) error {
		in, _, err := openInput(args[0], os.Stdin)
		if err != nil {
			return misused(err)
		}
		defer in.Close()
		name := inputName(args[0])
		read, err := readOverrides(in)
		if err != nil {
			return misusedf("%s: %w", name, err)
		}
		for _, w := range read.warnings {
			warnUser(name + ":" + w)
		}
		if read.ended > 0 {
			fmt.Fprintln(os.Stderr, words.Counted(read.ended, "override has", "overrides have")+" expired; skipped.")
		}
		do, done := b.Import, "%d are set.\n"
		if *dry {
			do, done = b.CheckImport, "%d are valid; nothing was set.\n"
		}
		if err := do(ctx, read.all); err != nil {
			return read.misuse(name, err)
		}
		fmt.Fprintf(os.Stderr, done, len(read.all))
		if !*asJSON {
			return nil
		}
		return printJSON(out, struct {
			Valid    int      `json:"valid"`
			Set      bool     `json:"set"`
			Ended    int      `json:"ended"`
			Warnings []string `json:"warnings,omitempty"` // each with its line in front
		}{len(read.all), !*dry, read.ended, read.warnings})
	})
}

// imported holds the overrides of a file with their lines.
type imported struct {
	all      []limits.Override
	lines    []int // the line of each override in all
	ended    int
	warnings []string // each with its line in front
}

// misuse attributes the API's errors of an override to its line.
func (i *imported) misuse(name string, err error) error {
	var p *apiclient.Problem
	if !errors.As(err, &p) || p.Status != http.StatusBadRequest {
		return err
	}
	var wrong []error
	for _, f := range p.Errors[:min(len(p.Errors), maxFaults)] {
		at, field, _ := strings.Cut(strings.TrimPrefix(f.Pointer, "/overrides/"), "/")
		n, bad := strconv.Atoi(at)
		if bad != nil || n < 0 || n >= len(i.lines) {
			return err
		}
		if field != "" {
			field += ": "
		}
		wrong = append(wrong, fmt.Errorf("line %d: %s%s", i.lines[n], field, f.Detail))
	}
	if part := new(apiclient.PartError); errors.As(err, &part) {
		name = fmt.Sprintf("%d of %d are set; then: %s", part.Done, part.All, name)
	}
	return misusedf("%s: %w", name, errors.Join(wrong...))
}

// maxFaults bounds the errors that are printed for one file.
const maxFaults = 20

// readOverrides reads all overrides, and reports every line that it cannot read. The API
// validates the overrides.
func readOverrides(in io.Reader) (*imported, error) {
	read := &imported{}
	var faults []error
	fault := func(number int, err error) { faults = append(faults, fmt.Errorf("line %d: %w", number, err)) }
	seen := map[overrideLevel]int{}
	for lines := newLines(in); len(faults) < maxFaults; {
		text, number, err := lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fault(number, err)
			if errors.Is(err, errLongLine) {
				continue
			}
			break
		}
		var override limits.Override
		if err := strictjson.Parse(text, &override); err != nil {
			fault(number, err)
			continue
		}
		level := overrideLevel{override.Level}
		if first, ok := seen[level]; ok {
			fault(number, fmt.Errorf("has the same level as line %d: %s", first, &level))
			continue
		}
		if seen[level] = number; len(seen) > limits.MaxOverrides {
			fault(number, limits.ErrTooManyOverrides)
			break
		}
		if !override.Until.IsZero() && !override.Until.After(time.Now()) {
			read.ended++
			continue
		}
		if override.Quota == "" {
			for _, w := range throttle.Warnings(override.Policy) {
				read.warnings = append(read.warnings, fmt.Sprintf("%d: %s", number, w))
			}
		}
		read.all, read.lines = append(read.all, override), append(read.lines, number)
	}
	return read, errors.Join(faults...)
}
