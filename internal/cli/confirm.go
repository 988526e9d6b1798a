package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/cli/progress"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/push"
)

// A confirmation guards a command that changes many things: it continues if there are at most
// --expect of them, or after a yes on the terminal. While workers run, notifications end between
// a dry run and the command, so fewer than --expect are right.
type confirmation struct {
	cmd    *cobra.Command
	expect int
}

func expectFlag(cmd *cobra.Command) *confirmation {
	c := &confirmation{cmd: cmd}
	cmd.Flags().IntVar(&c.expect, "expect", 0, "go ahead without asking if there are at most `N`, and otherwise do nothing and fail")
	return c
}

// confirm returns nil if the command may go on. n is the number of things that would change. The
// text "what" describes these things, and "do" is the verb of the question.
func (c *confirmation) confirm(n int, what, do string) error {
	do += " " + map[bool]string{true: "it", false: "them"}[n == 1]
	switch {
	case c.cmd.Flags().Changed("expect"):
		if n > c.expect {
			return fmt.Errorf("%s, more than %d: nothing was changed", what, c.expect)
		}
		return nil
	case n == 0:
		return nil
	case !progress.OnTerminal(os.Stdin):
		return misusedf("%s. Not a terminal: pass --expect %d to %s. Nothing was changed", what, n, do)
	}
	fmt.Fprintf(os.Stderr, "%s. Really %s? [y/N] ", what, do)
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("nothing was changed")
	}
	return nil
}

// printBulk prints the counts of a bulk action. It returns an error, with the first one, if some
// items were not done.
func printBulk(b operate.Bulk, out io.Writer, asJSON bool, done string, first error) error {
	if asJSON {
		if err := printJSON(out, b); err != nil {
			return err
		}
	} else {
		text := fmt.Sprintf("%d %s", b.Done, done)
		if b.Gone > 0 {
			text += fmt.Sprintf("; %d had ended or were gone", b.Gone)
		}
		if b.UnderWay > 0 {
			text += "; " + words.Counted(b.UnderWay, "is", "are") + " being sent"
		}
		if b.Failed > 0 {
			text += fmt.Sprintf("; %d failed", b.Failed)
		}
		fmt.Fprintln(os.Stderr, text+".")
	}
	switch {
	case b.Failed > 0:
		if several := new(push.AmbiguousError); errors.As(first, &several) {
			first = ofID(several.Choices[0].ID, first)
		}
		return fmt.Errorf("%s left: repeat the command: %w", words.Counted(b.Failed+b.UnderWay, "is", "are"), first)
	case b.UnderWay > 0:
		return fmt.Errorf("%s left: repeat the command in a moment", words.Counted(b.UnderWay, "is", "are"))
	}
	return nil
}
