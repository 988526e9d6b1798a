//go:build unix && e2e

package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// An operator finds a throttled user, reads the reason and the time, previews a higher limit,
// sets it, sees the waiting notification leave, and restores the limit: by mouse without script,
// and by keyboard. The stand-ins' ledgers show the pushes sent.
func (s *site) testStory(t *testing.T) {
	t.Parallel()
	for user, way := range map[string]struct {
		look look
		with func(*tab) hand
	}{
		"noa":  {look{width: 360, dark: true}, func(b *tab) hand { return mouse{b} }},
		"otto": {look{width: 1440, dark: true, scripted: true}, func(b *tab) hand { return keys{b} }},
	} {
		t.Run(fmt.Sprintf("%T %s", way.with(nil), way.look), func(t *testing.T) {
			t.Parallel()
			s.send(t, 3, user, "orders") // one an hour
			s.untilReceived(t, user, 1)
			b := s.tab(t, way.look)
			h := way.with(b)
			b.open(http.StatusOK, "/console/")
			h.fill("Token", operatorToken)
			h.press("Sign in")

			h.fill("An ID or a user", user)
			h.press("Find")
			slot := s.received(t, user)[0].At.Add(time.Hour).UTC()
			b.until("main", user, "the limit 1/1h of category orders", slot.Format("15:04"))
			h.press("Change orders")
			h.fill("Rates", "100/1h")
			h.press("Preview")
			b.until("main", "2 of 2 that wait would leave sooner, 2 of them at once; none later.")
			if got := s.received(t, user); len(got) != 1 {
				t.Fatalf("a preview has had %d leave", len(got)-1)
			}
			h.press("Apply")
			s.untilReceived(t, user, 3)
			b.until("main", "100/1h", "set by ada")

			h.press("Limit changes")
			h.press(evaluate[string](b, fmt.Sprintf(`[...document.querySelectorAll("tr")].find((e) => e.innerText.includes("user %s")).querySelector("button").ariaLabel`, user)))
			b.until("main", user, "100/1h")
			h.press("Undo it")
			b.until("main", user)
			if got := s.ask(t, http.MethodGet, "/v1/limits?app=demo&category=orders&user="+user, ""); !strings.Contains(got, `"1/1h"`) || strings.Contains(got, `"100/1h"`) {
				t.Errorf("restored is %s", got)
			}
		})
	}
}
