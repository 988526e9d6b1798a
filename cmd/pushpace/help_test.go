//go:build unix

package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// commands are all that --help knows, by walking it from the program's own.
func commands(t *testing.T, path ...string) [][]string {
	t.Helper()
	all := [][]string{path}
	inCommands := false
	for line := range strings.Lines(help(t, path...)) {
		switch fields := strings.Fields(line); {
		case strings.HasPrefix(line, "Available Commands:"):
			inCommands = true
		case len(fields) == 0:
			inCommands = false
		case inCommands && fields[0] != "help":
			all = append(all, commands(t, append(slices.Clone(path), fields[0])...)...)
		}
	}
	return all
}

func help(t *testing.T, path ...string) string {
	t.Helper()
	p := start(t, setup{}, append(slices.Clone(path), "--help")...)
	if got := p.wait(t, 10*time.Second); got != exitDone {
		t.Fatalf("%v --help: exit status %d: %s", path, got, &p.stderr)
	}
	return p.stdout.String()
}

// Who mistypes is pointed to the help of what was meant, and told so by the exit
// status.
func TestMistypedIsPointedToHelp(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"demo --nosuch": "See pushpace demo --help.", "dead list --nosuch": "See pushpace dead list --help.", "help nosuch": "See pushpace --help.", "nosuch": "See pushpace --help.",
	} {
		if got := ended(t, setup{}, strings.Fields(args)...); got.status != exitUsage || strings.Count(got.stderr, "See pushpace") != 1 || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %+v", args, got)
		}
	}
	if got := ended(t, setup{}, "help", "dead", "list"); got.status != exitDone || !strings.Contains(got.stdout, "dead list") {
		t.Errorf("%+v", got)
	}
}
