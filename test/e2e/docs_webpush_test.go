//go:build e2e && unix

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/serviceworker"
	"github.com/chromedp/chromedp"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/webpush"
	"github.com/pushpace/pushpace/providers/webpush/webpushtest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/chromium"
	"github.com/pushpace/pushpace/test/rig"
)

// runBrowser makes Chromium show a notification with the page and the service worker of the blocks.
func runBrowser(t *testing.T, page []block) {
	if len(page) != 2 {
		t.Fatalf("there are %d blocks, want the page and its service worker", len(page))
	}
	showsAPush(t, map[string]string{"/": page[0].text, "/sw.js": page[1].text})
}

// A shownPush is a notification as the browser shows it.
type shownPush struct {
	Title, Body, Tag string
	Data             map[string]string
}

// showsAPush makes the site's service worker show, in Chromium, a message that the stand-in has
// decrypted. The debugging protocol delivers it, because this browser has no push service.
func showsAPush(t *testing.T, site map[string]string) {
	n := &push.Notification{
		ID: "order-4711", App: "demo", User: "ada", Title: "Your order has shipped", Body: "Grüße & <b>日本</b>", Data: map[string]string{"url": "/orders/4711"},
		Targets: []push.Target{webpushtest.Subscription(webpushtest.Endpoint(push.WebPushMozilla, "laptop"))},
	}
	payload := decrypted(t, n)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, there := site[r.URL.Path]
		kind := map[string]string{".js": "text/javascript", ".json": "application/json"}[filepath.Ext(r.URL.Path)]
		if !there {
			w.WriteHeader(http.StatusNotFound)
		} else if w.Header().Set("Content-Type", kind); kind == "" {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
		}
		_, _ = fmt.Fprint(w, text)
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(chromium.Start(t), chromium.Patience)
	defer cancel()
	registered := make(chan serviceworker.RegistrationID, 100)
	err := chromedp.Listen(ctx, func(event any) {
		if e, is := event.(*serviceworker.EventWorkerRegistrationUpdated); is {
			for _, r := range e.Registrations {
				select {
				case registered <- r.RegistrationID:
				default:
				}
			}
		}
	})
	if err == nil {
		_, err = chromedp.CallBrowser(ctx, browser.SetPermission, browser.SetPermissionParams{
			Permission: &browser.PermissionDescriptor{Name: "notifications"}, Setting: browser.PermissionSettingGranted, Origin: server.URL,
		})
	}
	if err == nil {
		_, err = chromedp.Call(ctx, serviceworker.Enable, cdp.Empty{})
	}
	if err == nil {
		err = chromedp.Do(ctx, chromedp.Navigate(server.URL))
	}
	rig.Must(t, err)
	var id serviceworker.RegistrationID
	select {
	case id = <-registered:
	case <-ctx.Done():
		t.Fatal("Chromium registers no service worker")
	}
	ask := func(script string) string {
		answer, err := chromedp.Run(ctx, chromedp.Evaluate[string]("(async () => { const registration = await navigator.serviceWorker.ready; "+script+" })()", chromedp.EvalAwaitPromise))
		rig.Must(t, err)
		return answer
	}
	var shown []shownPush
	// Chromium drops a notification that a page requests before the page is on the screen.
	if !eventually.Within(chromium.Patience, func() bool {
		if ask("return registration.active.state") != "activated" {
			return false
		}
		if _, err := chromedp.Call(ctx, serviceworker.DeliverPushMessage, serviceworker.DeliverPushMessageParams{Origin: server.URL, RegistrationID: id, Data: payload}); err != nil {
			t.Fatal(err)
		}
		text := ask("await new Promise(done => setTimeout(done, 500)); return JSON.stringify((await registration.getNotifications()).map(n => ({ title: n.title, body: n.body, tag: n.tag, data: n.data })))")
		rig.Must(t, json.Unmarshal([]byte(text), &shown))
		return len(shown) > 0
	}) {
		t.Fatal("Chromium shows nothing")
	}
	if s := shown[0]; len(shown) != 1 || s.Title != n.Title || s.Body != n.Body || s.Tag != n.ID || s.Data[push.IDKey] != n.ID || s.Data["url"] != "/orders/4711" {
		t.Errorf("Chromium shows %+v", shown)
	}
}

// decrypted returns the notification's message, decrypted by the stand-in.
func decrypted(t *testing.T, n *push.Notification) string {
	t.Helper()
	var read []string
	server, err := webpushtest.NewServer(webpushtest.Options{Seen: func(p webpushtest.Push) { read = append(read, string(p.Payload)) }})
	rig.Must(t, err)
	defer server.Close()
	cfg, err := server.WriteCredentials(t.TempDir())
	rig.Must(t, err)
	sender, err := webpush.New(cfg)
	rig.Must(t, err)
	defer sender.Close()
	if o := sender.Send(t.Context(), n, n.Targets[0], providers.Departure{}); o.Kind != providers.Delivered || len(read) != 1 || !strings.Contains(read[0], n.Title) {
		t.Fatalf("%+v, %q", o, read)
	}
	return read[0]
}
