package words

import (
	"testing"

	"github.com/pushpace/pushpace/worker/control"
)

// Every cause has words of its own.
func TestCause(t *testing.T) {
	t.Parallel()
	said := map[string]bool{}
	for _, c := range control.Causes {
		if said[Cause(c)] || Cause(c) == string(c) {
			t.Errorf("%s: %q", c, Cause(c))
		}
		said[Cause(c)] = true
	}
	if Cause("news") != "news" {
		t.Error("one that is not known is not told")
	}
}
