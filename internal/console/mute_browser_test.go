//go:build unix

package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/chromium"
	"github.com/pushpace/pushpace/push"
)

// Somebody who has had enough is muted by hand: what waits ends, and what is new.
func (s *site) testMute(t *testing.T) {
	t.Parallel()
	const user = "opal"
	s.send(t, 1, user, "orders") // alone, so that the others are who waits
	s.untilReceived(t, user, 1)
	s.send(t, 3, user, "orders") // of which two are new
	b := s.tab(t, look{width: 1440, scripted: true})
	b.signIn(operatorToken, "/console/limits/edit?user="+user)
	m := mouse{b}
	m.press("Mute")
	b.until("main", "2 notifications that wait end muted.")
	b.judge("mute confirmation")
	m.press("Mute")
	b.until(".notice", "Muted on every worker")
	b.until("main", "of the user")
	b.judge("muted")
	ends := func(i int) {
		t.Helper()
		var status struct{ State push.State }
		if !eventually.Within(chromium.Patience, func() bool {
			text := s.ask(t, http.MethodGet, fmt.Sprintf("/v1/notifications/opal-orders-%d", i), "")
			if err := json.Unmarshal([]byte(text), &status); err != nil {
				t.Fatal(err)
			}
			return status.State == push.Muted
		}) {
			t.Errorf("opal-orders-%d is %s", i, status.State)
		}
	}
	ends(1)
	ends(2)
	s.send(t, 4, user, "orders") // of which one is new
	ends(3)
	m.press("Unmute")
	b.until(".notice", "The mute is removed.")
	if n := len(s.received(t, user)); n != 1 {
		t.Errorf("%d pushes have come", n)
	}
}
