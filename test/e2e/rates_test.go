//go:build e2e && unix

package e2e

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/test/rig"
)

// A token's rate holds at all processes of the API together, and changes while they run.
func TestServeRates(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	const token = "shop-token-0123456789"
	tokens := func(rate string) string {
		return fmt.Sprintf("http:\n  listen: 127.0.0.1:0\n  tokens: [{name: shop, role: viewer, sha256: %x%s}]\n", sha256.Sum256([]byte(token)), rate)
	}
	s.Configure(t, "http:\n", tokens(", rate: {rate: 2/1h}"))
	apis := [2]*rig.Program{}
	for i := range apis {
		apis[i] = rig.Start(t, s.Setup, "serve", "--only", "api")
		apis[i].Until(t, "serving", func() bool { return strings.Contains(apis[i].Stderr.String(), "serving") })
	}
	for _, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests, http.StatusTooManyRequests} {
		apis[0], apis[1] = apis[1], apis[0]
		if got := apis[0].LimitsStatus(t, token); got != want {
			t.Errorf("status %d, want %d", got, want)
		}
	}
	s.Configure(t, "http:\n", tokens(""))
	for _, p := range apis {
		p.HangUp(t)
		p.Says(t, 1, "the configuration is reloaded", `changed="http.tokens: [shop (viewer, {rate: 2/1h})] → [shop (viewer)]"`)
		if got := p.LimitsStatus(t, token); got != http.StatusOK {
			t.Errorf("status %d without a rate", got)
		}
	}
	s.Stop(t, apis[:]...)
}
