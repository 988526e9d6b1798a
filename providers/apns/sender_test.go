package apns_test

import (
	"bytes"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/apns/apnstest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

func TestMain(m *testing.M) {
	redistest.Parallel()
	goleak.VerifyTestMain(m)
}

const secret = "payload-secret"

func newServer(t *testing.T, options apnstest.Options) *apnstest.Server {
	t.Helper()
	server, err := apnstest.NewServer(options)
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	return server
}

func credentials(t *testing.T, server *apnstest.Server) apns.Config {
	t.Helper()
	config, err := server.WriteCredentials(t.TempDir())
	must(t, err)
	return config
}

func newSender(t *testing.T, config apns.Config) *apns.Sender {
	t.Helper()
	sender, err := apns.New(config)
	must(t, err)
	t.Cleanup(func() { _ = sender.Close() })
	return sender
}

func notification(id string) *push.Notification {
	return &push.Notification{ID: id, App: "shop", User: "u1", Title: "Hello", Body: secret}
}

func to(token string) push.Target { return push.Target{Platform: push.APNs, Token: token} }

// harmless fails if an outcome's error contains a secret.
func harmless(t *testing.T, o providers.Outcome, secrets ...string) {
	t.Helper()
	if o.Err == nil {
		return
	}
	for _, s := range append(secrets, secret) {
		if strings.Contains(o.Err.Error(), s) {
			t.Errorf("the error holds %q: %v", s, o.Err)
		}
	}
}

func TestUnprocessedPushIsResent(t *testing.T) {
	t.Parallel()
	server := newServer(t, apnstest.Options{})
	sender := newSender(t, credentials(t, server))

	// After one GOAWAY that excludes the push, the transport tries again: APNs has not processed
	// the push.
	if o := sender.Send(t.Context(), notification("n1"), to("fade190b"), providers.Departure{}); o.Kind != providers.Delivered {
		t.Errorf("%+v", o)
	}
	if count := server.Count(); count.Received != 2 || count.Connections != 2 || server.Ledger().Len() != 1 {
		t.Errorf("%+v, %d accepted", count, server.Ledger().Len())
	}
	// If each try gets this GOAWAY, the transport gives up, and knows that nothing was sent.
	o := sender.Send(t.Context(), notification("n2"), to("fade090b"), providers.Departure{})
	if o.Kind != providers.Retry || o.Reason != providers.ConnectionLost || o.Ambiguous {
		t.Errorf("%+v", o)
	}
	if server.Ledger().Len() != 1 {
		t.Errorf("%d accepted", server.Ledger().Len())
	}
}

func TestDeadTokenOutcomeHasSince(t *testing.T) {
	t.Parallel()
	server := newServer(t, apnstest.Options{})
	sender := newSender(t, credentials(t, server))
	since := time.UnixMilli(1700000000000)
	server.Respond("00aa", standin.Answer{Status: 410, Since: since})
	if o := sender.Send(t.Context(), notification("n1"), to("00aa"), providers.Departure{}); !o.Since.Equal(since) {
		t.Errorf("Since = %v, want %v", o.Since, since)
	}
}

func TestSentPushHasIDAndPayload(t *testing.T) {
	t.Parallel()
	server := newServer(t, apnstest.Options{})
	sender := newSender(t, credentials(t, server))
	n := notification("n1")
	n.Body = `<&>`
	message, err := n.RenderAPNs(to("00aa"))
	must(t, err)
	server.Respond("00aa", standin.Answer{Status: 503})
	sender.Send(t.Context(), n, to("00aa"), providers.Departure{})
	o := sender.Send(t.Context(), n, to("00aa"), providers.Departure{})
	if o.Kind != providers.Delivered || o.ProviderID != message.ID {
		t.Fatalf("%+v, want the apns-id %s", o, message.ID)
	}
	got := server.Ledger().Entries()[0]
	got.At = time.Time{}
	want := standin.Entry{Platform: "apns", App: apnstest.Topic, Token: "00aa", APNsID: message.ID, Notification: "n1", PayloadBytes: len(message.Payload)}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestBadTargetIsRefusedWithoutRequest(t *testing.T) {
	t.Parallel()
	server := newServer(t, apnstest.Options{})
	sender := newSender(t, credentials(t, server))
	for _, c := range []struct {
		name   string
		n      *push.Notification
		target push.Target
		kind   providers.Kind
		reason providers.Reason
	}{
		{"other platform", notification("n1"), push.Target{Platform: push.FCM, Token: "00aa"}, providers.Rejected, providers.Invalid},
		{"not hexadecimal", notification("n1"), to("%zz/../x"), providers.DeadToken, apns.BadDeviceToken},
		{"empty token", notification("n1"), to(""), providers.DeadToken, apns.BadDeviceToken},
	} {
		o := sender.Send(t.Context(), c.n, c.target, providers.Departure{})
		if o.Kind != c.kind || o.Reason != c.reason || o.Err == nil {
			t.Errorf("%s: %+v", c.name, o)
		}
		harmless(t, o, "zz")
	}
	if got := server.Count().Received; got != 0 {
		t.Errorf("%d requests", got)
	}
}

// The outcome of an answer about a topic names the topic, if only some of the app's pushes have it.
func TestOutcomeReportsRefusedTopic(t *testing.T) {
	t.Parallel()
	server := newServer(t, apnstest.Options{})
	config := credentials(t, server)
	sender := newSender(t, config)
	for _, c := range []struct {
		pushType string
		answer   standin.Answer
		want     string
	}{
		{"voip", standin.Answer{Status: http.StatusBadRequest, Reason: string(apns.TopicDisallowed)}, config.Topic + ".voip"},
		{"voip", standin.Answer{Status: http.StatusBadRequest, Reason: string(apns.DeviceTokenNotForTopic)}, config.Topic + ".voip"},
		{"voip", standin.Answer{Status: http.StatusForbidden, Reason: string(apns.InvalidProviderToken)}, ""},
		{"alert", standin.Answer{Status: http.StatusBadRequest, Reason: string(apns.TopicDisallowed)}, ""},
	} {
		server.RespondAlways(c.answer)
		n := notification("n1")
		n.PushType = c.pushType
		o := sender.Send(t.Context(), n, to("00aa"), providers.Departure{})
		if string(o.Reason) != c.answer.Reason || o.Topic != c.want || o.Kind == providers.Delivered {
			t.Errorf("%s, %s: %+v, want the topic %q", c.pushType, c.answer.Reason, o, c.want)
		}
	}
}

func TestWrongCredentialsAreMisconfigured(t *testing.T) {
	t.Parallel()
	server := newServer(t, apnstest.Options{})
	right := credentials(t, server)
	other := credentials(t, newServer(t, apnstest.Options{}))
	key, err := os.ReadFile(other.KeyFile)
	must(t, err)
	for _, c := range []struct {
		name   string
		change func(*apns.Config)
		reason providers.Reason
	}{
		{"key", func(c *apns.Config) { c.KeyFile = other.KeyFile }, apns.InvalidProviderToken},
		{"key ID", func(c *apns.Config) { c.KeyID = "OTHERKEY01" }, apns.InvalidProviderToken},
		{"authority", func(c *apns.Config) { c.RootCAFile = other.RootCAFile }, providers.TLSRefused},
	} {
		config := right
		c.change(&config)
		o := newSender(t, config).Send(t.Context(), notification("n1"), to("00aa"), providers.Departure{})
		if o.Kind != providers.Misconfigured || o.Reason != c.reason {
			t.Errorf("%s: %+v", c.name, o)
		}
		harmless(t, o, "00aa", string(bytes.TrimSpace(bytes.Split(key, []byte("\n"))[1])))
	}
	if got := server.Ledger().Len(); got != 0 {
		t.Errorf("%d accepted", got)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
