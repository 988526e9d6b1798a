package worker

import (
	"fmt"
	"testing"
	"time"

	"github.com/pushpace/pushpace/throttle/limits"
)

// A user is named once an hour, and a hundred users at most.
func TestClockBackNamesUserOncePerHour(t *testing.T) {
	t.Parallel()
	var c clockBack
	now := time.Now()
	expect := func(user int, wantNamed, wantMore bool) {
		t.Helper()
		if named, more := c.add(limits.Level{App: "shop", User: fmt.Sprint(user)}, now); named != wantNamed || more != wantMore {
			t.Errorf("user %d: named %t, more %t", user, named, more)
		}
	}
	for i := range mostNamed {
		expect(i, true, false)
	}
	expect(0, false, false)
	expect(mostNamed, false, true)
	now = now.Add(namedFor + 1)
	expect(mostNamed, true, false)
	expect(0, true, false)
}
