package queue

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestRecent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := new(recent[int])
		v.note("old", 1)
		v.note("left", 2)
		time.Sleep(forgetAfter + 1)
		v.note("new", 3)
		for id, want := range map[string]bool{"old": false, "left": false, "new": true, "unknown": false} {
			if _, ok := v.of(id); ok != want {
				t.Errorf("%s is known: %t", id, ok)
			}
		}
		if n, ok := v.take("new"); n != 3 || !ok {
			t.Errorf("%d, %t", n, ok)
		}
		if _, ok := v.take("new"); ok || len(v.known) != 0 {
			t.Errorf("left: %v", v.known)
		}
	})
}
