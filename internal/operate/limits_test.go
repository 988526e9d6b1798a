package operate

import (
	"testing"
	"time"

	"github.com/pushpace/pushpace/throttle/limits"
)

// Undoing does not restore an override that has expired.
func TestUndoRestoresNoExpiredOverride(t *testing.T) {
	t.Parallel()
	now := time.Now()
	gone, stays := &limits.Override{Until: now}, &limits.Override{Until: now.Add(time.Second)}
	for name, c := range map[string]struct {
		from, to, want *limits.Override
		any            bool
	}{
		"set": {nil, stays, nil, true}, "changed": {stays, stays, stays, true}, "removed": {stays, nil, stays, true},
		"changed, and has ended": {gone, stays, nil, true}, "removed, and has ended": {gone, nil, nil, false}, "ended": {gone, nil, nil, false},
	} {
		if to, any := Undoing(limits.Change{From: c.from, To: c.to}, now); to != c.want || any != c.any {
			t.Errorf("%s: %+v, %t", name, to, any)
		}
	}
}
