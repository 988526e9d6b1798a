package cli

import (
	"os"

	"golang.org/x/term"
)

// onTerminal reports whether the file is a terminal.
func onTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
