//go:build e2e && unix

package e2e

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/test/rig"
)

// The path / redirects browsers to the console, and other clients to the API's document. The
// configuration can turn the console off.
func TestServeConsole(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	p, at := s.ServeAPI(t, "--only", "api")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for accept, want := range map[string]string{"": "/openapi.json", "text/html,application/xhtml+xml,*/*;q=0.8": "<h1>Overview"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+"/", nil)
		rig.Must(t, err)
		request.Header.Set("Accept", accept)
		answer, err := client.Do(request)
		rig.Must(t, err)
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("who accepts %q is shown %s, %v", accept, text, err)
		}
	}
	s.Stop(t, p)
	s.Configure(t, "    enabled: true\n    # origin", "    enabled: false\n    # origin")
	p, at = s.ServeAPI(t, "--only", "api")
	for _, path := range []string{"/console", "/console/", "/console/signin"} {
		if status, text := rig.Ask(t, "", "GET", at+path, ""); status != http.StatusNotFound || !strings.Contains(text, "There is nothing at this path") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	s.Stop(t, p)
}
