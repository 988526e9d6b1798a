package fcm_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/fcm"
	"github.com/pushpace/pushpace/providers/fcm/fcmtest"
)

func TestFaultsByTheAdminEndpoint(t *testing.T) {
	t.Parallel()
	server, sender := started(t, fcmtest.Options{Admin: "127.0.0.1:0"})
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
	ask("PUT", "/script", `{"token":"token","answers":[{"status":503,"retry_after":"90s"},{"fault":"close"}]}`)
	o := sender.Send(t.Context(), note(), target("token"))
	want(t, o, providers.Retry, fcm.Unavailable, providers.ConcernsProvider)
	if o.RetryAfter != 90*time.Second {
		t.Errorf("%+v", o)
	}
	want(t, sender.Send(t.Context(), note(), target("token")), providers.Retry, providers.ConnectionLost, providers.ConcernsProvider)
	delivered(t, sender)
	ask("POST", "/expire-tokens", "")
	want(t, sender.Send(t.Context(), note(), target("token")), providers.Retry, fcm.Unauthenticated, providers.ConcernsCredential)
	delivered(t, sender)
	ask("PUT", "/always", `{"status":404}`)
	want(t, sender.Send(t.Context(), note(), target("token")), providers.DeadToken, fcm.Unregistered, providers.ConcernsToken)
	ask("DELETE", "/always", "")
	delivered(t, sender)
}
