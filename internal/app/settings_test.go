package app

import (
	"io"
	stdlog "log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/providers/webpush"
	"github.com/pushpace/pushpace/push"
)

// The test is not parallel: it replaces the log of net/http.
func TestLogHidesTextOfPeers(t *testing.T) {
	var told eventually.Log
	before := stdlog.Writer()
	flags := stdlog.Flags()
	t.Cleanup(func() { stdlog.SetOutput(before); stdlog.SetFlags(flags) })
	stdlog.SetFlags(0)
	stdlog.SetOutput(librariesLog{slog.New(slog.NewTextHandler(&told, &slog.HandlerOptions{Level: slog.LevelDebug}))})

	const secret = "https://push.example.net/the-endpoint"
	peer := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, to, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = io.WriteString(to, "HTTP/1.1 204 No Content\r\n\r\n"+secret)
		_ = to.Flush()
		_, _ = io.Copy(io.Discard, c)
	}))
	t.Cleanup(peer.Close)
	response, err := peer.Client().Get(peer.URL)
	must(t, err)
	_ = response.Body.Close()
	if !eventually.Within(eventually.Patience, func() bool { return strings.Contains(told.String(), unsolicited) }) {
		t.Fatalf("net/http's line has not come; the log has %q", told.String())
	}
	if text := told.String(); strings.Contains(text, "endpoint") || !strings.Contains(text, "level=DEBUG") {
		t.Errorf("the log tells what a peer sent: %s", text)
	}

	stdlog.Print("something else")
	if !strings.Contains(told.String(), `level=INFO msg="something else"`) {
		t.Errorf("another line is lost: %s", told.String())
	}
}

// The packages push, config and app have the same platforms.
func TestPlatformsMatchPushAndConfig(t *testing.T) {
	t.Parallel()
	var names []push.Platform
	for _, p := range Platforms {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, push.Platforms()) {
		t.Errorf("%q, want %q", names, push.Platforms())
	}
	all := config.App{APNs: &config.APNs{}, FCM: &config.FCM{}, WebPush: &config.WebPush{}}
	if got := all.Platforms(); !slices.Equal(got, push.Platforms()) {
		t.Errorf("an app with all providers sends to %q", got)
	}
}

// The API knows the hosts that the senders accept.
func TestHostsOfAppsMatchSenders(t *testing.T) {
	t.Parallel()
	browsers := func(hosts ...string) config.App {
		return config.App{WebPush: &config.WebPush{Config: webpush.Config{Hosts: hosts}}}
	}
	apps := AppsOf(&config.Config{Apps: map[string]config.App{"default": browsers(), "own": browsers("push.example.org"), "simulated": {Simulated: true}}})
	for name, want := range map[string][]string{"default": push.WebPushHosts(), "own": {"push.example.org"}, "simulated": {push.AnyHost}} {
		if got := apps[name].Hosts; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
