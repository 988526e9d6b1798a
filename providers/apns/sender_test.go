package apns_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return server
}

func credentials(t *testing.T, server *apnstest.Server) apns.Config {
	t.Helper()
	config, err := server.WriteCredentials(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func newSender(t *testing.T, config apns.Config) *apns.Sender {
	t.Helper()
	sender, err := apns.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sender.Close() })
	return sender
}

func notification(id string) *push.Notification {
	return &push.Notification{ID: id, App: "shop", User: "u1", Title: "Hello", Body: secret}
}

func to(token string) push.Target { return push.Target{Platform: push.APNs, Token: token} }

// harmless fails if an outcome's error tells what it must not.
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

func TestSendAnswers(t *testing.T) {
	t.Parallel()
	const token = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"
	for _, c := range []struct {
		name      string
		answer    standin.Answer
		kind      providers.Kind
		reason    providers.Reason
		concerns  providers.Concern
		ambiguous bool
		received  int64
		accepted  int
	}{
		{"accepted", standin.Answer{}, providers.Delivered, providers.OK, providers.NoConcern, false, 1, 1},
		{"unregistered", standin.Answer{Status: 410}, providers.DeadToken, apns.Unregistered, providers.ConcernsToken, false, 1, 0},
		{"expired token", standin.Answer{Status: 410, Reason: "ExpiredToken"}, providers.DeadToken, apns.ExpiredToken, providers.ConcernsToken, false, 1, 0},
		{"bad device token", standin.Answer{Status: 400}, providers.DeadToken, apns.BadDeviceToken, providers.ConcernsToken, false, 1, 0},
		{"not for topic", standin.Answer{Status: 400, Reason: "DeviceTokenNotForTopic"}, providers.Rejected, apns.DeviceTokenNotForTopic, providers.ConcernsToken, false, 1, 0},
		{"invalid provider token", standin.Answer{Status: 403}, providers.Misconfigured, apns.InvalidProviderToken, providers.ConcernsCredential, false, 1, 0},
		{"too many requests", standin.Answer{Status: 429}, providers.Retry, apns.TooManyRequests, providers.ConcernsToken, false, 1, 0},
		{"internal error", standin.Answer{Status: 500}, providers.Retry, apns.InternalServerError, providers.ConcernsProvider, false, 1, 0},
		{"unavailable", standin.Answer{Status: 503}, providers.Retry, apns.ServiceUnavailable, providers.ConcernsProvider, false, 1, 0},
		{"shutdown", standin.Answer{Status: 503, Reason: "Shutdown"}, providers.Retry, apns.Shutdown, providers.ConcernsProvider, false, 1, 0},
		{"unknown reason", standin.Answer{Status: 418, Reason: secret}, providers.Rejected, providers.Unknown, providers.ConcernsApp, false, 1, 0},
		{"proxy's page", standin.Answer{Fault: standin.Page}, providers.Retry, providers.Unreadable, providers.ConcernsProvider, true, 1, 0},
		{"end of file", standin.Answer{Fault: standin.Close}, providers.Retry, providers.ConnectionLost, providers.ConcernsProvider, true, 1, 1},
		{"GOAWAY", standin.Answer{Fault: standin.GoAway}, providers.Retry, providers.ConnectionLost, providers.ConcernsProvider, true, 1, 1},
		{"black hole", standin.Answer{Fault: standin.BlackHole}, providers.Retry, providers.TimedOut, providers.ConcernsProvider, true, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t, apnstest.Options{})
			server.Respond(token, c.answer)
			config := credentials(t, server)
			if c.answer.Fault == standin.BlackHole {
				config.Timeout = 3 * time.Second // enough to connect on a busy machine
			}
			sender := newSender(t, config)
			o := sender.Send(t.Context(), notification("n1"), to(token))
			if o.Kind != c.kind || o.Reason != c.reason || o.Concerns != c.concerns || o.Ambiguous != c.ambiguous {
				t.Errorf("%+v", o)
			}
			if (o.Err == nil) != (c.kind == providers.Delivered) {
				t.Errorf("Err = %v", o.Err)
			}
			harmless(t, o, token)
			if got := server.Count().Received; got != c.received {
				t.Errorf("%d requests, want %d", got, c.received)
			}
			if got := server.Ledger().Len(); got != c.accepted {
				t.Errorf("%d accepted, want %d", got, c.accepted)
			}
			// Whatever happened, the next one goes through.
			if o := sender.Send(t.Context(), notification("n2"), to("00aa")); o.Kind != providers.Delivered {
				t.Errorf("the next one: %+v", o)
			}
		})
	}
}

func TestSendWhatTheServerDidNotProcess(t *testing.T) {
	t.Parallel()
	server := newServer(t, apnstest.Options{})
	sender := newSender(t, credentials(t, server))

	// Said once, the transport tries again: nobody has seen the push.
	if o := sender.Send(t.Context(), notification("n1"), to("fade190b")); o.Kind != providers.Delivered {
		t.Errorf("%+v", o)
	}
	if count := server.Count(); count.Received != 2 || count.Connections != 2 || server.Ledger().Len() != 1 {
		t.Errorf("%+v, %d accepted", count, server.Ledger().Len())
	}
	// Said always, it gives up, and knows that nothing was sent.
	o := sender.Send(t.Context(), notification("n2"), to("fade090b"))
	if o.Kind != providers.Retry || o.Reason != providers.ConnectionLost || o.Ambiguous {
		t.Errorf("%+v", o)
	}
	if server.Ledger().Len() != 1 {
		t.Errorf("%d accepted", server.Ledger().Len())
	}
}

func TestSendRetryAfter(t *testing.T) {
	t.Parallel()
	server := newServer(t, apnstest.Options{})
	sender := newSender(t, credentials(t, server))
	for i, c := range []struct {
		answer    standin.Answer
		low, high time.Duration
	}{
		{standin.Answer{Status: 503}, 0, 0},
		{standin.Answer{Status: 503, RetryAfter: 7 * time.Second}, 7 * time.Second, 7 * time.Second},
		{standin.Answer{Status: 429, RetryAfter: time.Minute, RetryAfterDate: true}, 55 * time.Second, 61 * time.Second},
		{standin.Answer{Status: 429, RetryAfter: 48 * time.Hour}, time.Hour, time.Hour},
		{standin.Answer{Status: 429}, 30 * time.Second, time.Minute},
		{standin.Answer{Status: 503, Reason: "Shutdown"}, time.Second, time.Second},
		{standin.Answer{Fault: standin.Page, RetryAfter: 3 * time.Second}, 3 * time.Second, 3 * time.Second},
	} {
		token := fmt.Sprintf("%064x", i)
		server.Respond(token, c.answer)
		o := sender.Send(t.Context(), notification("n1"), to(token))
		if o.Kind != providers.Retry || o.RetryAfter < c.low || o.RetryAfter > c.high {
			t.Errorf("%+v: %+v", c.answer, o)
		}
	}
}

func TestSendSince(t *testing.T) {
	t.Parallel()
	server := newServer(t, apnstest.Options{})
	sender := newSender(t, credentials(t, server))
	since := time.UnixMilli(1700000000000)
	server.Respond("00aa", standin.Answer{Status: 410, Since: since})
	if o := sender.Send(t.Context(), notification("n1"), to("00aa")); !o.Since.Equal(since) {
		t.Errorf("Since = %v, want %v", o.Since, since)
	}
}

func TestSendWhatGoesOut(t *testing.T) {
	t.Parallel()
	server := newServer(t, apnstest.Options{})
	sender := newSender(t, credentials(t, server))
	n := notification("n1")
	n.Body = `<&>`
	message, err := n.RenderAPNs(to("00aa"))
	if err != nil {
		t.Fatal(err)
	}
	server.Respond("00aa", standin.Answer{Status: 503})
	sender.Send(t.Context(), n, to("00aa"))
	o := sender.Send(t.Context(), n, to("00aa"))
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

func TestSendTopicOfPushType(t *testing.T) {
	t.Parallel()
	server := newServer(t, apnstest.Options{Topics: []string{apnstest.Topic}})
	sender := newSender(t, credentials(t, server))
	for _, pushType := range []string{"alert", "background", "voip", "complication", "location", "fileprovider", "pushtotalk", "widgets", "controls"} {
		n := &push.Notification{ID: pushType, App: "shop", User: "u1", PushType: pushType}
		if o := sender.Send(t.Context(), n, to("00aa")); o.Kind != providers.Delivered {
			t.Errorf("%s: %+v", pushType, o)
		}
	}
}

func TestSendRefusesLocally(t *testing.T) {
	t.Parallel()
	server := newServer(t, apnstest.Options{})
	sender := newSender(t, credentials(t, server))
	large := notification("n1")
	large.Body = strings.Repeat("x", push.MaxAPNsPayload)
	for _, c := range []struct {
		name   string
		n      *push.Notification
		target push.Target
		kind   providers.Kind
		reason providers.Reason
	}{
		{"too large", large, to("00aa"), providers.Rejected, providers.Invalid},
		{"other platform", notification("n1"), push.Target{Platform: push.FCM, Token: "00aa"}, providers.Rejected, providers.Invalid},
		{"not hexadecimal", notification("n1"), to("%zz/../x"), providers.DeadToken, apns.BadDeviceToken},
		{"empty token", notification("n1"), to(""), providers.DeadToken, apns.BadDeviceToken},
	} {
		o := sender.Send(t.Context(), c.n, c.target)
		if o.Kind != c.kind || o.Reason != c.reason || o.Err == nil {
			t.Errorf("%s: %+v", c.name, o)
		}
		harmless(t, o, "zz")
	}
	if got := server.Count().Received; got != 0 {
		t.Errorf("%d requests", got)
	}
}

func TestSendWithCertificate(t *testing.T) {
	t.Parallel()
	server := newServer(t, apnstest.Options{})
	config, err := server.WriteCertificate(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if o := newSender(t, config).Send(t.Context(), notification("n1"), to("00aa")); o.Kind != providers.Delivered {
		t.Errorf("%+v", o)
	}
	// A certificate of another authority.
	other, err := newServer(t, apnstest.Options{}).WriteCertificate(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	config.CertificateFile = other.CertificateFile
	o := newSender(t, config).Send(t.Context(), notification("n2"), to("00aa"))
	if o.Kind != providers.Misconfigured || o.Reason != providers.TLSRefused {
		t.Errorf("%+v", o)
	}
	if got := server.Ledger().Len(); got != 1 {
		t.Errorf("%d accepted", got)
	}
}

func TestSendWithWrongCredentials(t *testing.T) {
	t.Parallel()
	server := newServer(t, apnstest.Options{})
	right := credentials(t, server)
	other := credentials(t, newServer(t, apnstest.Options{}))
	key, err := os.ReadFile(other.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*apns.Config)
		reason providers.Reason
	}{
		{"key", func(c *apns.Config) { c.KeyFile = other.KeyFile }, apns.InvalidProviderToken},
		{"key ID", func(c *apns.Config) { c.KeyID = "OTHERKEY01" }, apns.InvalidProviderToken},
		{"team ID", func(c *apns.Config) { c.TeamID = "OTHERTEAM1" }, apns.InvalidProviderToken},
		{"authority", func(c *apns.Config) { c.RootCAFile = other.RootCAFile }, providers.TLSRefused},
	} {
		config := right
		c.change(&config)
		o := newSender(t, config).Send(t.Context(), notification("n1"), to("00aa"))
		if o.Kind != providers.Misconfigured || o.Reason != c.reason {
			t.Errorf("%s: %+v", c.name, o)
		}
		harmless(t, o, "00aa", string(bytes.TrimSpace(bytes.Split(key, []byte("\n"))[1])))
	}
	if got := server.Ledger().Len(); got != 0 {
		t.Errorf("%d accepted", got)
	}
}

func TestSendDialFails(t *testing.T) {
	t.Parallel()
	server := newServer(t, apnstest.Options{})
	config := credentials(t, server)
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	sender := newSender(t, config)
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			o := sender.Send(t.Context(), notification("n1"), to("00aa"))
			if o.Kind != providers.Retry || o.Reason != providers.DialFailed || o.Ambiguous || o.Concerns != providers.ConcernsProvider {
				t.Errorf("%+v", o)
			}
			harmless(t, o, "00aa")
		})
	}
	all.Wait()
}

// A server that takes the connection and says nothing has been sent nothing.
func TestSendDeadlineWhileConnecting(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	config := credentials(t, newServer(t, apnstest.Options{}))
	config.Endpoint = "https://" + silent.Addr().String()
	config.Timeout = 50 * time.Millisecond
	o := newSender(t, config).Send(t.Context(), notification("n1"), to("00aa"))
	if o.Kind != providers.Retry || o.Reason != providers.TimedOut || o.Ambiguous {
		t.Errorf("%+v", o)
	}
}

func TestSendDeadline(t *testing.T) {
	t.Parallel()
	server := newServer(t, apnstest.Options{})
	sender := newSender(t, credentials(t, server))
	if o := sender.Send(t.Context(), notification("n0"), to("00aa")); o.Kind != providers.Delivered { // on a warm connection
		t.Fatalf("%+v", o)
	}
	const allowed = time.Second
	ctx, cancel := context.WithTimeout(t.Context(), allowed)
	defer cancel()
	start := time.Now()
	o := sender.Send(ctx, notification("n1"), to("fade0b1a"))
	if took := time.Since(start); took > allowed+5*time.Second {
		t.Errorf("took %v", took)
	}
	if o.Reason != providers.TimedOut || !o.Ambiguous || !errors.Is(o.Err, context.DeadlineExceeded) {
		t.Errorf("%+v", o)
	}
	// A cancelled caller has sent nothing.
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if o := newSender(t, credentials(t, server)).Send(gone, notification("n1"), to("00aa")); o.Reason != providers.Cancelled || o.Ambiguous {
		t.Errorf("%+v", o)
	}
}

func TestSendAfterClose(t *testing.T) {
	t.Parallel()
	server := newServer(t, apnstest.Options{})
	sender := newSender(t, credentials(t, server))
	if o := sender.Send(t.Context(), notification("n1"), to("00aa")); o.Kind != providers.Delivered {
		t.Fatalf("%+v", o)
	}
	if err := sender.Close(); err != nil {
		t.Fatal(err)
	}
	o := sender.Send(t.Context(), notification("n2"), to("00aa"))
	if o.Kind != providers.Retry || o.Ambiguous || o.Err == nil {
		t.Errorf("%+v", o)
	}
}
