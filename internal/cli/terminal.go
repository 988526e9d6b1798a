package cli

import (
	"os"

	"golang.org/x/term"
)

// onTerminal reports whether a person watches the file.
func onTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
