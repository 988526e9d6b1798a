package main

import (
	"os"

	"golang.org/x/term"
)

// onTerminal reports whether a person watches the file.
func onTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// decorated reports whether the file takes colours and more than plain
// characters. See https://no-color.org.
func decorated(f *os.File) bool {
	return onTerminal(f) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
