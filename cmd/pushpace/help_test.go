//go:build unix

package main

import (
	"strings"
	"testing"
)

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
