package fcm_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/fcm"
	"github.com/pushpace/pushpace/providers/fcm/fcmtest"
	"github.com/pushpace/pushpace/providers/providertest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

// started returns a stand-in and a sender to it.
func started(t *testing.T, options fcmtest.Options) (*fcmtest.Server, *fcm.Sender) {
	t.Helper()
	server, cfg := start(t, options)
	return server, newSender(t, cfg)
}

var want = providertest.Want

func note() *push.Notification {
	return &push.Notification{ID: "id", App: "app", User: "user", Title: "title"}
}

func target(token string) push.Target { return push.Target{Platform: push.FCM, Token: token} }

// FCM receives the rendered message, byte for byte. The SDK's types would lose or
// change parts of it.
func TestMessageArrivesAsRendered(t *testing.T) {
	t.Parallel()
	arrived := make(chan []byte, 1)
	_, sender := started(t, fcmtest.Options{Seen: func(body []byte) { arrived <- body }})
	badge := 3
	for name, n := range map[string]*push.Notification{
		"bare": note(),
		"all that is derived": {
			ID: "id", App: "app", User: "user", Title: "<1 & 2>", Body: "\u2028 é 👍", Badge: &badge, Sound: "ping",
			Image: "https://example.com/i.png", Channel: "channel", CollapseKey: "key", Data: map[string]string{"a": "<b>", "c": ""},
			ExpiresAt: time.Now().Add(time.Hour),
		},
		"fractions": {ID: "id", App: "app", User: "user", Title: "t", FCM: json.RawMessage(`{"android":{"ttl":"3.5s"}}`)},
		"what the SDK's types do not hold": {ID: "id", App: "app", User: "user", Title: "t", FCM: json.RawMessage(`{
			"android":{"direct_boot_ok":false,"bandwidth_constrained_ok":true,"notification":{"sticky":false,"event_time":"2026-11-20T20:00:00Z","vibrate_timings":["0.5s"],
				"light_settings":{"color":{"red":0,"green":0.01,"blue":1,"alpha":1},"light_on_duration":"0.25s","light_off_duration":"1s"}}},
			"apns":{"headers":{"apns-priority":"5"},"payload":{"aps":{"content-available":1,"alert":{"title":"t"}},"large":9007199254740993,"float":1.10}},
			"webpush":{"headers":{"Urgency":"high"},"notification":{"title":"t","silent":false,"custom":{"n":9007199254740993}},"fcm_options":{"link":"https://example.com"}}}`)},
	} {
		n.Targets = []push.Target{target("token")}
		if err := n.Validate(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		before := time.Now()
		want(t, sender.Send(t.Context(), n, target("token"), providers.Departure{}), providers.Delivered, providers.OK, providers.NoConcern)
		got := string(<-arrived)
		// The TTL is the remaining life at an instant between before and after, in seconds.
		at, after := before, time.Now()
		for !isRendering(t, n, at, got) && at.Before(after) {
			at = at.Add(min(time.Second, after.Sub(at)))
		}
		if !isRendering(t, n, at, got) {
			t.Errorf("%s: %s arrived", name, got)
		}
	}
}

// A push to a FID has it in fid, and FCM's answers have the same outcomes as for a token.
func TestFIDHasOutcomesOfToken(t *testing.T) {
	t.Parallel()
	server, sender := started(t, fcmtest.Options{})
	send := func(fid string) providers.Outcome {
		return sender.Send(t.Context(), note(), push.Target{Platform: push.FCM, FID: fid}, providers.Departure{})
	}
	want(t, send("deQ7zv1tRk2bX0mYw9sLpA"), providers.Delivered, providers.OK, providers.NoConcern)
	if taken := server.Ledger().Entries(); len(taken) != 1 || taken[0].FID != "deQ7zv1tRk2bX0mYw9sLpA" || taken[0].Token != "" {
		t.Errorf("accepted %+v", taken)
	}
	for _, fid := range []string{"deaddead1tRk2bX0mYw9sL", "deQ7zv1tRk2bX0mYw9sLpA:APA91bExample"} {
		o := send(fid)
		want(t, o, providers.DeadToken, fcm.Unregistered, providers.ConcernsToken)
		if strings.Contains(o.Err.Error(), fid) {
			t.Errorf("the error holds the FID: %v", o.Err)
		}
	}
}

// Pushes to tokens without an answer take no permit of the FIDs.
func TestHangingTokensDelayNoFID(t *testing.T) {
	t.Parallel()
	const tokens = 300 // more than may be in flight
	server, cfg := start(t, fcmtest.Options{})
	cfg.Timeout = fcm.MaxTimeout // no push ends meanwhile
	sender := newSender(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	var pushes sync.WaitGroup
	defer pushes.Wait()
	defer cancel()
	for i := range tokens {
		token := fmt.Sprint("token-", i)
		server.Respond(token, standin.Answer{Fault: standin.BlackHole})
		pushes.Go(func() { sender.Send(ctx, note(), target(token), providers.Departure{}) })
	}
	eventually.Holds(t, "the tokens take all their permits", func() bool { return server.Count().InFlight == 256 })
	for range 3 {
		o := sender.Send(t.Context(), note(), push.Target{Platform: push.FCM, FID: "deQ7zv1tRk2bX0mYw9sLpA"}, providers.Departure{})
		want(t, o, providers.Delivered, providers.OK, providers.NoConcern)
	}
}

func isRendering(t *testing.T, n *push.Notification, at time.Time, got string) bool {
	t.Helper()
	m, err := n.RenderFCM(target("token"), at)
	must(t, err)
	return got == `{"message":`+string(m.JSON)+`}`
}

func TestRefusedNewAccessTokenIsMisconfigured(t *testing.T) {
	t.Parallel()
	server, sender := started(t, fcmtest.Options{})
	server.Respond("token", standin.Answer{Status: http.StatusUnauthorized}, standin.Answer{Status: http.StatusUnauthorized})
	for range 2 {
		want(t, sender.Send(t.Context(), note(), target("token"), providers.Departure{}), providers.Misconfigured, fcm.Unauthenticated, providers.ConcernsCredential)
	}
	want(t, sender.Send(t.Context(), note(), target("token"), providers.Departure{}), providers.Delivered, providers.OK, providers.NoConcern)
}

func TestTokenEndpointFailureSendsNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		answer   standin.Answer
		kind     providers.Kind
		reason   providers.Reason
		concerns providers.Concern
		wait     time.Duration
	}{
		{"503", standin.Answer{Status: 503}, providers.Retry, fcm.TokenEndpointUnreachable, providers.ConcernsCredential, 0},
		{"429", standin.Answer{Status: 429, RetryAfter: time.Minute}, providers.Retry, fcm.TokenEndpointUnreachable, providers.ConcernsCredential, time.Minute},
		{"page", standin.Answer{Fault: standin.Page}, providers.Retry, fcm.TokenEndpointUnreachable, providers.ConcernsCredential, 0},
		{"refused", standin.Answer{Status: 400}, providers.Misconfigured, fcm.CredentialsRefused, providers.ConcernsCredential, 0},
		{"redirected", standin.Answer{Status: 302}, providers.Misconfigured, fcm.CredentialsRefused, providers.ConcernsCredential, 0},
		{"broken", standin.Answer{Fault: standin.Close}, providers.Retry, fcm.TokenEndpointUnreachable, providers.ConcernsCredential, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server, cfg := start(t, fcmtest.Options{})
			sender := newSender(t, cfg)
			server.TokenScript.Respond("", c.answer)
			o := sender.Send(t.Context(), note(), target("token"), providers.Departure{})
			want(t, o, c.kind, c.reason, c.concerns)
			if o.Ambiguous || o.RetryAfter != c.wait || o.Err == nil || c.kind == providers.Retry && !strings.HasPrefix(o.Err.Error(), "no access token: "+server.URL()) {
				t.Errorf("ambiguous %v, wait %v, error %v", o.Ambiguous, o.RetryAfter, o.Err)
			}
			if n := server.Count().Received; n != 0 {
				t.Errorf("%d pushes came in", n)
			}
			if o := sender.Send(t.Context(), note(), target("token"), providers.Departure{}); o.Kind != providers.Delivered && o.Reason != fcm.TokenEndpointUnreachable {
				t.Errorf("then %v (%v)", o.Kind, o.Err)
			}
		})
	}
}

func TestWrongSetupDeliversNothing(t *testing.T) {
	t.Parallel()
	server, good := start(t, fcmtest.Options{})
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	for _, c := range []struct {
		name     string
		change   func(*fcm.Config)
		kind     providers.Kind
		reason   providers.Reason
		concerns providers.Concern
	}{
		{"another key", func(c *fcm.Config) { c.CredentialsFile = edit(t, good, "private_key", pkcs8(t, other)) }, providers.Misconfigured, fcm.CredentialsRefused, providers.ConcernsCredential},
		{"no token endpoint", func(c *fcm.Config) { c.CredentialsFile = edit(t, good, "token_uri", "https://127.0.0.1:1/token") }, providers.Retry, fcm.TokenEndpointUnreachable, providers.ConcernsCredential},
		{"another project", func(c *fcm.Config) { c.ProjectID = "other" }, providers.Misconfigured, fcm.PermissionDenied, providers.ConcernsCredential},
		{"another path", func(c *fcm.Config) { c.Endpoint += "/x" }, providers.Misconfigured, providers.Unreadable, providers.ConcernsApp},
		{"the system's roots", func(c *fcm.Config) { c.RootCAFile = "" }, providers.Misconfigured, providers.TLSRefused, providers.ConcernsApp},
	} {
		cfg := good
		c.change(&cfg)
		sender := newSender(t, cfg)
		o := sender.Send(t.Context(), note(), target("token"), providers.Departure{})
		if o.Kind != c.kind || o.Reason != c.reason || o.Concerns != c.concerns || o.Ambiguous {
			t.Errorf("%s: %v %s, concerns %d (%v)", c.name, o.Kind, o.Reason, o.Concerns, o.Err)
		}
	}
	if n := server.Ledger().Len(); n != 0 {
		t.Errorf("%d were accepted", n)
	}
}

// edit writes a copy of the credentials with value for key.
func edit(t *testing.T, cfg fcm.Config, key, value string) string {
	t.Helper()
	text, err := os.ReadFile(cfg.CredentialsFile)
	must(t, err)
	var fields map[string]string
	must(t, json.Unmarshal(text, &fields))
	fields[key] = value
	if text, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "credentials.json")
	must(t, os.WriteFile(path, text, 0o600))
	return path
}

func pkcs8(t *testing.T, key *rsa.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// A broken server's answer leads to no second request, although the SDK would repeat most requests.
func TestBrokenAnswerIsNotRepeated(t *testing.T) {
	t.Parallel()
	half := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(status)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}
	for _, c := range []struct {
		name      string
		handler   http.HandlerFunc
		kind      providers.Kind
		reason    providers.Reason
		ambiguous bool
	}{
		{"200 and half a body", half(http.StatusOK), providers.Delivered, providers.OK, false},
		{"404 and half a body", half(http.StatusNotFound), providers.Retry, providers.ConnectionLost, false},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, providers.Misconfigured, providers.Unreadable, false},
		{"endless body", func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := io.WriteString(w, strings.Repeat(" ", 4096)); err != nil {
					return
				}
			}
		}, providers.Delivered, providers.OK, false},
	} {
		for _, http1 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, HTTP1 %v", c.name, http1), func(t *testing.T) {
				t.Parallel()
				_, cfg := start(t, fcmtest.Options{})
				var requests atomic.Int64
				serve(t, &cfg, http1, func(w http.ResponseWriter, r *http.Request) {
					requests.Add(1)
					c.handler(w, r)
				})
				sender := newSender(t, cfg)
				o := sender.Send(t.Context(), note(), target("token"), providers.Departure{})
				if o.Kind != c.kind || o.Reason != c.reason || o.Ambiguous != c.ambiguous {
					t.Errorf("%v %s, ambiguous %v (%v)", o.Kind, o.Reason, o.Ambiguous, o.Err)
				}
				if n := requests.Load(); n != 1 {
					t.Errorf("%d requests, want 1", n)
				}
			})
		}
	}
}

// serve serves handler in the place of FCM, and points cfg to it.
func serve(t *testing.T, cfg *fcm.Config, http1 bool, handler http.HandlerFunc) {
	t.Helper()
	server, err := standin.NewHTTPS(standin.HTTPSOptions{HTTP1: http1, Counters: new(standin.Counters)})
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	server.Serve(handler)
	roots, err := os.ReadFile(cfg.RootCAFile)
	must(t, err)
	cfg.Endpoint, cfg.RootCAFile = server.URL(), filepath.Join(t.TempDir(), "roots.pem")
	must(t, os.WriteFile(cfg.RootCAFile, append(roots, server.CA()...), 0o600))
}

func TestCloseWaitsForPushesInFlight(t *testing.T) {
	t.Parallel()
	server, sender := started(t, fcmtest.Options{Latency: standin.Latency{Typical: 100 * time.Millisecond}})
	outcome := make(chan providers.Outcome, 1)
	go func() { outcome <- sender.Send(context.Background(), note(), target("token"), providers.Departure{}) }()
	eventually.Holds(t, "the push is accepted", func() bool { return server.Ledger().Len() > 0 })
	must(t, sender.Close())
	select {
	case o := <-outcome:
		want(t, o, providers.Delivered, providers.OK, providers.NoConcern)
	case <-time.After(30 * time.Second):
		t.Error("Close returned before the push was over")
	}
}

func TestTargetWithoutTokenIsRejected(t *testing.T) {
	t.Parallel()
	_, sender := started(t, fcmtest.Options{})
	want(t, sender.Send(t.Context(), note(), target(""), providers.Departure{}), providers.Rejected, providers.Invalid, providers.ConcernsMessage)
	want(t, sender.Send(t.Context(), note(), push.Target{Platform: push.APNs, Token: "token"}, providers.Departure{}), providers.Rejected, providers.Invalid, providers.ConcernsMessage)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
