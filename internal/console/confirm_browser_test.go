//go:build unix && e2e

package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/pushpace/pushpace/push"
)

// What a confirmation shows is what is done, whatever comes meanwhile: neither the
// list that somebody selects in nor the confirmation changes under their hands.
func (s *site) testConfirmation(t *testing.T) {
	t.Parallel()
	const user = "quin"
	s.send(t, 1, user, "orders") // alone, so that the others are who waits
	s.untilReceived(t, user, 1)
	s.send(t, 3, user, "orders") // of which two are new
	b := s.tab(t, look{width: 1440, scripted: true})
	b.signIn(operatorToken, "/console/waiting?user="+user)
	b.until("main", "quin-orders-1", "quin-orders-2")
	b.do(chromedp.Click(chromedp.CSS(`[aria-label="Select quin-orders-1"]`)))
	s.send(t, 5, user, "orders") // of which two are new
	b.still()
	m := mouse{b}
	m.press("Cancel 1")
	b.until("main", "1 notification", "quin-orders-1")
	b.judge("confirmation")
	s.send(t, 6, user, "orders")
	b.still()
	m.press("Cancel 1")
	b.until(".notice", "1")
	for i, want := range []push.State{push.Delivered, push.Cancelled, push.Waiting, push.Waiting, push.Waiting, push.Waiting} {
		var status struct{ State push.State }
		text := s.ask(t, http.MethodGet, fmt.Sprintf("/v1/notifications/quin-orders-%d", i), "")
		if err := json.Unmarshal([]byte(text), &status); err != nil || status.State != want {
			t.Errorf("quin-orders-%d is %s, want %s: %v", i, status.State, want, err)
		}
	}
}
