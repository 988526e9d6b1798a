package apns_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/apns/apnstest"
)

func TestFaultsByTheAdminEndpoint(t *testing.T) {
	t.Parallel()
	server := newServer(t, apnstest.Options{Admin: "127.0.0.1:0"})
	sender := newSender(t, credentials(t, server))
	ask := func(method, path, body string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, server.AdminURL()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _ = response.Body.Close(); response.StatusCode != http.StatusNoContent {
			t.Fatalf("%s %s: %s", method, path, response.Status)
		}
	}
	ask("PUT", "/script", `{"token":"00aa","answers":[{"status":503,"retry_after":"90s"},{"fault":"close"}]}`)
	if o := send(t, sender, providers.Retry, apns.ServiceUnavailable); o.RetryAfter != 90*time.Second {
		t.Errorf("%+v", o)
	}
	send(t, sender, providers.Retry, providers.ConnectionLost)
	ask("PUT", "/always", `{"status":410}`)
	send(t, sender, providers.DeadToken, apns.Unregistered)
	ask("DELETE", "/always", "")
	send(t, sender, providers.Delivered, providers.OK)
	ask("POST", "/expire-tokens", "")
	send(t, sender, providers.Misconfigured, apns.ExpiredProviderToken) // it is new
	if newServer(t, apnstest.Options{}).AdminURL() != "" {
		t.Error("there are controls that nobody asked for")
	}
}
