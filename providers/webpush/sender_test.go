package webpush_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/providertest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/providers/webpush"
	"github.com/pushpace/pushpace/providers/webpush/webpushtest"
	"github.com/pushpace/pushpace/push"
)

// The tests of this file are not parallel: they need the processor that parallel cases of the
// suite would use.

var services = []push.Platform{push.WebPushGoogle, push.WebPushMozilla, push.WebPushApple, push.WebPushWindows, push.WebPushOther}

// newServerAndSender returns a stand-in and a sender for it.
func newServerAndSender(t testing.TB, options webpushtest.Options) (*webpushtest.Server, *webpush.Sender) {
	t.Helper()
	server, cfg := start(t, options)
	return server, newSender(t, cfg)
}

var want = providertest.Want

func note() *push.Notification {
	return &push.Notification{ID: "id", App: "app", User: "user", Title: "title"}
}

func target(service push.Platform, name string) push.Target {
	return webpushtest.Subscription(webpushtest.Endpoint(service, name))
}

func delivered(t *testing.T, o providers.Outcome) {
	t.Helper()
	want(t, o, providers.Delivered, providers.OK, providers.NoConcern)
}

// The browser decrypts exactly the bytes that push rendered, and the header has the other fields.
func TestMessageArrivesAsRendered(t *testing.T) {
	seen := make(chan webpushtest.Push, 1)
	_, sender := newServerAndSender(t, webpushtest.Options{Seen: func(p webpushtest.Push) { seen <- p }})
	n := &push.Notification{
		ID: "id", App: "app", User: "user", Title: "<1 & 2>", Body: "\u2028 é 👍", Priority: push.Bulk, Data: map[string]string{"a": "<b>"},
		ExpiresAt: time.Now().Add(time.Hour),
	}
	for _, service := range services {
		to := target(service, "device")
		m, err := n.RenderWebPush(to, time.Now())
		must(t, err)
		o := sender.Send(t.Context(), n, to, providers.Departure{})
		delivered(t, o)
		if o.ProviderID == "" || strings.Contains(o.ProviderID, "/") {
			t.Errorf("%s: the message is called %q", service, o.ProviderID)
		}
		p := <-seen
		if string(p.Payload) != string(m.Payload) || p.Endpoint != to.Token {
			t.Errorf("%s: %s arrived at %s", service, p.Payload, p.Endpoint)
		}
		if ttl, err := strconv.Atoi(p.Header.Get("TTL")); err != nil || ttl > 3600 || ttl < 3600-60 {
			t.Errorf("%s: TTL %d (%v)", service, ttl, err)
		}
		if p.Header.Get("Urgency") != m.Urgency || p.Header.Get("Topic") != m.Topic || p.Header.Get("Content-Type") != "application/octet-stream" {
			t.Errorf("%s: %v", service, p.Header)
		}
	}
}

func TestRefusedTokenIsReplaced(t *testing.T) {
	server, sender := newServerAndSender(t, webpushtest.Options{})
	for _, service := range []push.Platform{push.WebPushGoogle, push.WebPushMozilla, push.WebPushApple, push.WebPushWindows} {
		to := target(service, "device")
		delivered(t, sender.Send(t.Context(), note(), to, providers.Departure{}))
		server.ExpireTokens()
		want(t, sender.Send(t.Context(), note(), to, providers.Departure{}), providers.Retry, webpush.Unauthorized, providers.ConcernsCredential)
		delivered(t, sender.Send(t.Context(), note(), to, providers.Departure{}))
		if n := server.TokensReceived(service); n != 2 {
			t.Errorf("%s was shown %d tokens, want 2", service, n)
		}
	}
}

// One subscription that is refused repeatedly neither marks a working key as wrong, nor causes a
// new token for each push.
func TestOneRefusedSubscriptionKeepsKey(t *testing.T) {
	server, sender := newServerAndSender(t, webpushtest.Options{})
	odd := target(push.WebPushGoogle, "fade0403")
	want(t, sender.Send(t.Context(), note(), odd, providers.Departure{}), providers.Misconfigured, webpush.Unauthorized, providers.ConcernsCredential)
	delivered(t, sender.Send(t.Context(), note(), target(push.WebPushGoogle, "device"), providers.Departure{}))
	for range 5 {
		want(t, sender.Send(t.Context(), note(), odd, providers.Departure{}), providers.Retry, webpush.Unauthorized, providers.ConcernsCredential)
	}
	delivered(t, sender.Send(t.Context(), note(), target(push.WebPushGoogle, "device"), providers.Departure{}))
	if n := server.TokensReceived(push.WebPushGoogle); n > 2 {
		t.Errorf("%d tokens were shown, want at most 2", n)
	}
}

// The sender detects a key that fits no subscription, and a subscription that does not fit the
// key.
func TestMismatchedKeyAndSubscriptionAreDetected(t *testing.T) {
	server, good := start(t, webpushtest.Options{})
	other, err := webpush.GenerateKey()
	must(t, err)
	text, err := other.PEM()
	must(t, err)
	wrong := good
	wrong.PrivateKeyFile = filepath.Join(t.TempDir(), "other.pem")
	must(t, os.WriteFile(wrong.PrivateKeyFile, text, 0o600))
	for _, service := range []push.Platform{push.WebPushGoogle, push.WebPushMozilla, push.WebPushApple, push.WebPushWindows} {
		sender := newSender(t, wrong)
		for i := range 10 { // one subscription is no proof, for any duration
			want(t, sender.Send(t.Context(), note(), target(service, "a"), providers.Departure{}), providers.Retry, webpush.VapidMismatch, providers.ConcernsToken)
			if i == 7 {
				sender.AgeProofs(time.Minute)
			}
		}

		sender = newSender(t, wrong)
		for _, name := range []string{"b", "c", "d", "e", "f"} { // many within mismatchWait are no proof either
			want(t, sender.Send(t.Context(), note(), target(service, name), providers.Departure{}), providers.Retry, webpush.VapidMismatch, providers.ConcernsToken)
		}
		sender.AgeProofs(time.Minute)
		for _, name := range []string{"g", "a"} {
			want(t, sender.Send(t.Context(), note(), target(service, name), providers.Departure{}), providers.Misconfigured, webpush.VapidMismatch, providers.ConcernsCredential)
		}

		sender = newSender(t, good)
		to := target(service, "other-key")
		server.Respond(to.Token, standin.Answer{Reason: string(webpush.VapidMismatch), Status: 403}, standin.Answer{Reason: string(webpush.VapidMismatch), Status: 403})
		want(t, sender.Send(t.Context(), note(), to, providers.Departure{}), providers.Retry, webpush.VapidMismatch, providers.ConcernsToken)
		delivered(t, sender.Send(t.Context(), note(), target(service, "fits"), providers.Departure{}))
		want(t, sender.Send(t.Context(), note(), to, providers.Departure{}), providers.DeadToken, webpush.VapidMismatch, providers.ConcernsToken)
	}
}

func TestForbiddenTargetsAreRefused(t *testing.T) {
	server, cfg := start(t, webpushtest.Options{})
	cfg.Hosts = nil
	sender := newSender(t, cfg)
	keys := target(push.WebPushGoogle, "device").Keys
	for name, c := range map[string]struct {
		target push.Target
		kind   providers.Kind
		reason providers.Reason
	}{
		"another host":    {push.Target{Token: "https://push.example.net/capability", Keys: keys}, providers.Rejected, webpush.EndpointRefused},
		"no keys":         {push.Target{Token: "https://fcm.googleapis.com/capability"}, providers.Rejected, providers.Invalid},
		"keys of others":  {push.Target{Token: "https://fcm.googleapis.com/capability", Keys: &push.Keys{P256DH: "capability", Auth: "capability"}}, providers.Rejected, providers.Invalid},
		"removed by Edge": {push.Target{Token: "https://permanently-removed.invalid/capability", Keys: keys}, providers.DeadToken, webpush.Gone},
	} {
		c.target.Platform = push.PlatformWebPush
		o := sender.Send(t.Context(), note(), c.target, providers.Departure{})
		if o.Kind != c.kind || o.Reason != c.reason || o.Concerns != providers.ConcernsToken || o.Err == nil || strings.Contains(o.Err.Error(), "capability") {
			t.Errorf("%s: %+v", name, o)
		}
	}
	want(t, sender.Send(t.Context(), note(), push.Target{Platform: push.FCM, Token: "x"}, providers.Departure{}), providers.Rejected, providers.Invalid, providers.ConcernsMessage)
	if n := server.Count().Received; n != 0 {
		t.Errorf("%d pushes came in", n)
	}
}

func TestWrongSetupIsNotAmbiguous(t *testing.T) {
	_, good := start(t, webpushtest.Options{})
	for _, c := range []struct {
		name    string
		change  func(*webpush.Config)
		service push.Platform
		kind    providers.Kind
		reason  providers.Reason
		concern providers.Concern
	}{
		{"the system's roots", func(c *webpush.Config) { c.RootCAFile = "" }, push.WebPushGoogle, providers.Misconfigured, providers.TLSRefused, providers.ConcernsApp},
		{"the system's roots at a stranger", func(c *webpush.Config) { c.RootCAFile = "" }, push.WebPushOther, providers.Retry, providers.TLSRefused, providers.ConcernsToken},
		{"nobody there", func(c *webpush.Config) { c.Endpoint = "https://127.0.0.1:1" }, push.WebPushApple, providers.Retry, providers.DialFailed, providers.ConcernsProvider},
		{"no stranger there", func(c *webpush.Config) { c.Endpoint = "https://127.0.0.1:1" }, push.WebPushOther, providers.Retry, providers.DialFailed, providers.ConcernsToken},
	} {
		cfg := good
		c.change(&cfg)
		sender := newSender(t, cfg)
		o := sender.Send(t.Context(), note(), target(c.service, "device"), providers.Departure{})
		if o.Kind != c.kind || o.Reason != c.reason || o.Concerns != c.concern || o.Ambiguous {
			t.Errorf("%s: %v %s, concerns %d (%v)", c.name, o.Kind, o.Reason, o.Concerns, o.Err)
		}
	}
}

// A failing host does not delay other hosts. After three failures in a row the sender backs off
// from it.
func TestFailingHostIsBackedOff(t *testing.T) {
	server, sender := newServerAndSender(t, webpushtest.Options{})
	failing, fine := target(push.WebPushOther, "device"), webpushtest.Subscription("https://push.example.org/device")
	server.Respond(failing.Token, standin.Answer{Fault: standin.Close}, standin.Answer{Status: http.StatusServiceUnavailable}, standin.Answer{Status: http.StatusBadGateway, Fault: standin.Page})
	for _, reason := range []providers.Reason{providers.ConnectionLost, webpush.ServerError, providers.Unreadable, providers.OriginBackoff} {
		want(t, sender.Send(t.Context(), note(), failing, providers.Departure{}), providers.Retry, reason, providers.ConcernsToken)
		delivered(t, sender.Send(t.Context(), note(), fine, providers.Departure{}))
	}
	if n := server.Count().Received; n != 7 {
		t.Errorf("%d pushes came in, want 7", n)
	}
}

// A service that never answers does not delay other services.
func TestStuckServiceDelaysNoOther(t *testing.T) {
	const held = 256
	server, sender := newServerAndSender(t, webpushtest.Options{})
	delivered(t, sender.Send(t.Context(), note(), target(push.WebPushGoogle, "device"), providers.Departure{}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var sends sync.WaitGroup
	for i := range held {
		to := target(push.WebPushGoogle, fmt.Sprint("hole-", i))
		server.Respond(to.Token, standin.Answer{Fault: standin.BlackHole})
		sends.Go(func() { sender.Send(ctx, note(), to, providers.Departure{}) })
	}
	eventually.Holds(t, "the service holds as many pushes as it may", func() bool { return server.Count().InFlight == held })
	for i := range 50 {
		for _, service := range []push.Platform{push.WebPushMozilla, push.WebPushApple, push.WebPushWindows, push.WebPushOther} {
			delivered(t, sender.Send(t.Context(), note(), target(service, fmt.Sprint("device-", i)), providers.Departure{}))
		}
	}
	if n := server.Count().InFlight; n != held {
		t.Errorf("%d pushes are in flight, want the service's %d", n, held)
	}
	cancel()
	sends.Wait()
}

// The suite tests this for the known services.
func TestLatePushToUnknownHostIsNotSent(t *testing.T) {
	server, sender := newServerAndSender(t, webpushtest.Options{})
	to := target(push.WebPushOther, "device")
	delivered(t, sender.Send(t.Context(), note(), to, providers.Departure{}))
	o := sender.Send(t.Context(), note(), to, providers.Departure{May: func() bool { return false }})
	want(t, o, providers.Retry, providers.TooLate, providers.ConcernsMessage)
	if o.Ambiguous || server.Ledger().Len() != 1 {
		t.Errorf("ambiguous %v, %d accepted", o.Ambiguous, server.Ledger().Len())
	}
	delivered(t, sender.Send(t.Context(), note(), to, providers.Departure{Before: time.Now().Add(time.Minute)}))
}

func TestCheckReportsFailedHosts(t *testing.T) {
	server, cfg := start(t, webpushtest.Options{})
	sender := newSender(t, cfg)
	if r := sender.Check(t.Context()); !r.OK() || len(r.Passed) < 3 {
		t.Errorf("%+v", r)
	}
	if n := server.Count().Received; n != 0 {
		t.Errorf("%d pushes came in", n)
	}
	if _, ends := sender.CredentialExpiry(); ends {
		t.Error("the key expires")
	}
	cfg.Subject = "https://example.com"
	other := newSender(t, cfg)
	if sender.Fingerprint() == other.Fingerprint() || sender.PublicKey() != other.PublicKey() || len(sender.PublicKey()) != 87 {
		t.Errorf("%s %s", sender.Fingerprint(), sender.PublicKey())
	}
	cfg.Endpoint = "https://127.0.0.1:1"
	nobody := newSender(t, cfg)
	if r := nobody.Check(t.Context()); r.Failed != providers.StepConnect || r.Err == nil {
		t.Errorf("%+v", r)
	}
	cfg.Endpoint, cfg.RootCAFile, cfg.Hosts, cfg.Timeout = "", "", []string{"one.invalid", "*.push.apple.com", "other.invalid"}, 5*time.Second
	strangers := newSender(t, cfg)
	if r := strangers.Check(t.Context()); r.OK() || !strings.Contains(r.Err.Error(), "one.invalid: ") || !strings.Contains(r.Err.Error(), "; other.invalid: ") {
		t.Errorf("%+v", r)
	}
}

func TestBadFilesAreRefused(t *testing.T) {
	_, good := start(t, webpushtest.Options{})
	empty := filepath.Join(t.TempDir(), "empty")
	must(t, os.WriteFile(empty, nil, 0o600))
	for key, change := range map[string]func(*webpush.Config){
		"private_key_file": func(c *webpush.Config) { c.PrivateKeyFile = empty },
		"root_ca_file":     func(c *webpush.Config) { c.RootCAFile = empty },
		"subject":          func(c *webpush.Config) { c.Subject = "" },
	} {
		cfg := good
		change(&cfg)
		if _, err := webpush.New(cfg); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
