package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pushpace/pushpace/internal/operate"
)

// A confirmation has a command that acts on many begin only when their number is
// right: by --expect, or by an answer on the terminal.
type confirmation struct {
	cmd    *cobra.Command
	expect int
}

func expectFlag(cmd *cobra.Command) *confirmation {
	c := &confirmation{cmd: cmd}
	cmd.Flags().IntVar(&c.expect, "expect", 0, "go ahead without asking if there are exactly `N`, and otherwise do nothing and fail")
	return c
}

// confirm returns nil when to go ahead with n things, of which what tells in the
// middle of a sentence.
func (c *confirmation) confirm(n int, what, do string) error {
	switch {
	case c.cmd.Flags().Changed("expect"):
		if n != c.expect {
			return fmt.Errorf("%d %s, and not %d: nothing is done", n, what, c.expect)
		}
		return nil
	case n == 0:
		return nil
	case !onTerminal(os.Stdin):
		return misusedf("%d %s: say --expect %d to %s; nothing is done", n, what, n, do)
	}
	fmt.Fprintf(os.Stderr, "%d %s. Really %s? [y/N] ", n, what, do)
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("nothing is done")
	}
	return nil
}

// tellBulk prints what became of many, and fails when some are left to do.
func tellBulk(b operate.Bulk, out io.Writer, asJSON bool, done string, first error) error {
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
			text += fmt.Sprintf("; %d are in a worker's hands", b.UnderWay)
		}
		if b.Failed > 0 {
			text += fmt.Sprintf("; %d failed", b.Failed)
		}
		fmt.Fprintln(os.Stderr, text+".")
	}
	switch {
	case b.Failed > 0:
		return fmt.Errorf("%d are left: do it again: %w", b.Failed+b.UnderWay, first)
	case b.UnderWay > 0:
		return fmt.Errorf("%d are left: do it again in a moment", b.UnderWay)
	}
	return nil
}
