package cli

import (
	"fmt"
	"slices"
	"testing"
)

// Each warning is printed once with its count. Beyond warnedMost different warnings, only
// their number is printed.
func TestWarningIsPrintedOnceWithCount(t *testing.T) {
	t.Parallel()
	var w warned
	w.add(nil)
	for range 3 {
		for i := range 2 * warnedMost {
			w.add([]string{fmt.Sprint(i)})
		}
	}
	if len(w.order) != warnedMost || !slices.Equal(w.order[:2], []string{"0", "1"}) || w.counts["0"] != 3 || len(w.counts) != warnedMost || w.others != 3*warnedMost {
		t.Errorf("%+v", w)
	}
}
