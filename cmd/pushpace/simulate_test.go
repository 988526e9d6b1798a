//go:build unix

package main

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/fcm"
	"github.com/pushpace/pushpace/push"
)

// A standing fault lasts until the admin endpoint ends it.
func TestSimulateFault(t *testing.T) {
	t.Parallel()
	p := start(t, setup{}, "simulate", "--fcm-fault", "503", "--retry-after", "1m", "--admin")
	p.until(t, "the settings", func() bool { return strings.Contains(p.stderr.String(), "Ctrl-C") })
	cfg, err := config.Parse("config.yaml", pushpace.ConfigYAML, strings.Fields(p.stdout.String()))
	if err != nil {
		t.Fatal(err)
	}
	sender, err := fcm.New(t.Context(), cfg.Apps["demo"].FCM.Config)
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	target := push.Target{Platform: push.FCM, Token: "ada-pixel"}
	send := func() providers.Outcome {
		n := &push.Notification{ID: "one", App: "demo", User: "ada", Title: "t", Targets: []push.Target{target}}
		return sender.Send(t.Context(), n, target)
	}
	if o := send(); o.Kind != providers.Retry || o.RetryAfter != time.Minute {
		t.Errorf("%+v", o)
	}
	url := regexp.MustCompile(`FCM is controlled at (\S+)`).FindStringSubmatch(p.stderr.String())
	if url == nil {
		t.Fatalf("standard error: %s", &p.stderr)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, url[1]+"/always", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	response.Body.Close()
	if o := send(); o.Kind != providers.Delivered {
		t.Errorf("%+v", o)
	}
	p.terminate(t)
	if got := p.wait(t, 10*time.Second); got != exitDone || !strings.Contains(p.stderr.String(), "accepted 1 pushes") {
		t.Errorf("exit status %d: %s", got, &p.stderr)
	}
}

func TestTrouble(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"429": `{"status":429,"retry_after":"30s"}`, "black-hole": `{"fault":"black_hole"}`, "page": `{"fault":"page"}`,
		"goaway-unprocessed": `{"fault":"goaway_unprocessed"}`, "drain": `{"fault":"drain"}`,
	} {
		a, err := trouble("--fault", text, 30*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := a.MarshalJSON(); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
}
