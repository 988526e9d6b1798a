package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the man pages of all commands into a folder",
		Long:    "man writes a page in section 1 for pushpace and each of its commands into the\nfolder, which it makes when it is not there.",
		Example: "  pushpace man ~/.local/share/man/man1 && man pushpace-timeline",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // for every reader of the manual
				return err
			}
			return writePages(cmd.Root(), args[0])
		},
	}
}

// writePages writes the page of the command and those of its subcommands.
func writePages(cmd *cobra.Command, dir string) error {
	file := filepath.Join(dir, pageName(cmd)+".1")
	if err := os.WriteFile(file, []byte(manPage(cmd)), 0o644); err != nil { //nolint:gosec // for every reader of the manual
		return err
	}
	for _, sub := range documented(cmd) {
		if err := writePages(sub, dir); err != nil {
			return err
		}
	}
	return nil
}

// documented are the subcommands that have a page.
func documented(cmd *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			all = append(all, sub)
		}
	}
	return all
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage writes a command's page in the man macros.
// Source: man(7).
func manPage(cmd *cobra.Command) string {
	var b strings.Builder
	section := func(name string) { fmt.Fprintf(&b, ".SH %s\n", name) }
	asWritten := func(text string) { fmt.Fprintf(&b, ".nf\n%s\n.fi\n", roff(strings.Trim(text, "\n"))) }
	name := pageName(cmd)
	fmt.Fprintf(&b, ".TH %s 1 \"\" %q pushpace\n", roff(strings.ToUpper(name)), "pushpace "+buildVersion().Version)
	section("NAME")
	fmt.Fprintf(&b, "%s \\- %s\n", roff(name), roff(cmd.Short))
	section("SYNOPSIS")
	fmt.Fprintf(&b, "\\fB%s\\fP\n", roff(cmd.UseLine()))
	section("DESCRIPTION")
	if cmd.Long != "" {
		asWritten(cmd.Long)
	} else {
		fmt.Fprintf(&b, "%s.\n", roff(cmd.Short))
	}
	if subs := documented(cmd); len(subs) > 0 {
		section("COMMANDS")
		for _, sub := range subs {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fP(1)\n%s\n", roff(pageName(sub)), roff(sub.Short))
		}
	}
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	if cmd.HasAvailableFlags() {
		section("OPTIONS")
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				b.WriteString(manFlag(f))
			}
		})
	}
	if cmd.Example != "" {
		section("EXAMPLES")
		asWritten(cmd.Example)
	}
	section("EXIT STATUS")
	b.WriteString("0 done, 1 failed, 2 wrong use or configuration, 3 accounting or limits violated.\n")
	if cmd.HasParent() {
		section("SEE ALSO")
		fmt.Fprintf(&b, "\\fB%s\\fP(1)\n", roff(pageName(cmd.Parent())))
	}
	return b.String()
}

func manFlag(f *pflag.Flag) string {
	value, usage := pflag.UnquoteUsage(f)
	head := "\\fB" + roff("--"+f.Name) + "\\fP"
	if f.Shorthand != "" {
		head = "\\fB" + roff("-"+f.Shorthand) + "\\fP, " + head
	}
	if value != "" {
		head += " \\fI" + roff(value) + "\\fP"
	}
	switch f.DefValue {
	case "", "false", "0", "0s", "[]":
	default:
		usage += " (default " + f.DefValue + ")"
	}
	return fmt.Sprintf(".TP\n%s\n%s\n", head, roff(usage))
}

// roff writes text so that roff takes none of it for its own, in ASCII.
// Source: groff_char(7).
func roff(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			b.WriteString(`\&`)
		}
		for _, r := range line {
			switch {
			case r == '\\':
				b.WriteString(`\e`)
			case r == '-':
				b.WriteString(`\-`)
			case r > unicode.MaxASCII:
				fmt.Fprintf(&b, `\[u%04X]`, r)
			default:
				b.WriteRune(r)
			}
		}
	}
	return b.String()
}
