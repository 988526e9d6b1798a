//go:build unix

package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/chromium"
)

// Who watches sees what leaves without doing anything.
func (s *site) testWatch(t *testing.T) {
	t.Parallel()
	b := s.tab(t, look{width: 360, scripted: true})
	b.signIn(viewerToken, "/console/live")
	sent := 0
	seen := eventually.Within(chromium.Patience, func() bool {
		if sent < 200 {
			s.send(t, 1, fmt.Sprintf("watched-%d", sent), "security")
			sent++
		}
		return strings.Contains(b.text("main"), "watched-")
	})
	if !seen {
		t.Fatalf("nothing is seen: %s", b.text("main"))
	}
	b.judge("live, watched")
	b.open(http.StatusOK, "/console/live?what=expired")
	if text := b.text("main"); strings.Contains(text, "watched-") {
		t.Errorf("none expired: %s", text)
	}
}
