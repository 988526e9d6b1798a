//go:build unix

package main

import (
	"strings"
	"testing"
)

// What bounds all workers is told among the other keys of each provider.
func TestCheckTellsWhatAllWorkersShare(t *testing.T) {
	t.Parallel()
	shared := effectiveShared{Concurrency: 7}
	e := &effective{Apps: map[string]effectiveApp{"shop": {
		APNs: &effectiveAPNs{effectiveShared: shared}, FCM: &effectiveFCM{effectiveShared: shared}, WebPush: &effectiveWebPush{effectiveShared: shared},
	}}}
	var text strings.Builder
	must(t, e.print(&text, false))
	if got := text.String(); strings.Count(got, "\n      concurrency: 7\n") != 3 || strings.Contains(got, "shared") {
		t.Errorf("%s", got)
	}
}
