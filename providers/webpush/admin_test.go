package webpush_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/webpush"
	"github.com/pushpace/pushpace/providers/webpush/webpushtest"
	"github.com/pushpace/pushpace/push"
)

func TestFaultsByTheAdminEndpoint(t *testing.T) {
	server, sender := started(t, webpushtest.Options{Admin: "127.0.0.1:0"})
	to := target(push.WebPushMozilla, "device")
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
	ask("PUT", "/script", `{"token":"`+to.Token+`","answers":[{"status":503,"retry_after":"90s"},{"fault":"close"}]}`)
	o := sender.Send(t.Context(), note(), to)
	want(t, o, providers.Retry, webpush.ServerError, providers.ConcernsProvider)
	if o.RetryAfter != 90*time.Second {
		t.Errorf("%+v", o)
	}
	want(t, sender.Send(t.Context(), note(), to), providers.Retry, providers.ConnectionLost, providers.ConcernsProvider)
	delivered(t, sender.Send(t.Context(), note(), to))
	ask("POST", "/expire-tokens", "")
	want(t, sender.Send(t.Context(), note(), to), providers.Retry, webpush.Unauthorized, providers.ConcernsCredential)
	delivered(t, sender.Send(t.Context(), note(), to))
	ask("PUT", "/always", `{"status":404}`)
	want(t, sender.Send(t.Context(), note(), to), providers.DeadToken, webpush.NotFound, providers.ConcernsToken)
	ask("DELETE", "/always", "")
	delivered(t, sender.Send(t.Context(), note(), to))
}
