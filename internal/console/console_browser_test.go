//go:build unix && e2e

package console

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/test/chromium"
)

// TestConsole runs the browser tests with one program and one browser.
func TestConsole(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fill(t)
	t.Run("pages", s.testPages)
	t.Run("story", s.testStory)
	t.Run("live", s.testLive)
	t.Run("zone", s.testZone)
	t.Run("away", s.testAway)
}

// signIn signs in with the token, and arrives at the page.
func (b *tab) signIn(token, path string) {
	b.t.Helper()
	b.open(http.StatusOK, path) // redirects to the sign-in form
	b.judge("signin")
	m := mouse{b}
	m.fill("Token", token)
	m.press("Sign in")
}

// fill creates content for every page.
func (s *site) fill(t *testing.T) {
	t.Helper()
	s.send(t, 3, "ada", "orders")
	s.send(t, 3, "ada", "news")
	s.send(t, 2, "O'Brien & <Söhne>", "orders")
	s.ask(t, "PUT", "/v1/pauses?app=shop&platform=apns", `{"reason":"a new certificate"}`)
	s.ask(t, "PUT", "/v1/overrides?user=bob", `{"min_gap":"5s","rates":["20/1h"]}`)
	s.ask(t, "POST", "/v1/notifications", `{"id":"lost","app":"demo","user":"eve","title":"Hello","targets":[{"platform":"apns","token":"fade0413"}]}`)
	s.untilReceived(t, "ada", 4)
	if !eventually.Within(chromium.Patience, func() bool { return strings.Contains(s.ask(t, "GET", "/v1/notifications/lost", ""), "rejected") }) {
		t.Fatal("there is no dead letter")
	}
}

// samples are the addresses of pages that need more than their path to show content.
var samples = map[string]string{
	"/console/users/{user}":       "/console/users/ada?app=demo",
	"/console/notifications/{id}": "/console/notifications/ada-orders-2",
	"/console/dead-letters/{id}":  "/console/dead-letters/lost",
	"/console/find":               "/console/find?q=ad",
	"/console/limits/edit":        "/console/limits/edit?app=demo&user=ada&category=orders",
	"/console/limits/preview":     "/console/limits/preview?app=demo&user=ada&category=orders&rates=100/1h&for=2h",
}

// addresses returns the pages that the principal may open.
func addresses(who operate.Principal) (all []string) {
	for _, r := range routes {
		if r.method == http.MethodGet && r.action != nil && r.action.Allows(who) {
			all = append(all, cmp.Or(samples[r.path], strings.TrimSuffix(r.path, "{$}")))
		}
	}
	return all
}

// Every page meets WCAG 2.2 AA, and none is wider than a phone.
func (s *site) testPages(t *testing.T) {
	t.Parallel()
	operator, viewer := operate.Principal{Role: config.Operator}, operate.Principal{Role: config.Viewer}
	for l, who := range map[look]operate.Principal{
		{width: 360, scripted: true}:              operator,
		{width: 1440, scripted: true, dark: true}: operator,
		{width: 1440, scripted: true}:             viewer,
	} {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			b := s.tab(t, l)
			b.signIn(map[config.Role]string{config.Operator: operatorToken, config.Viewer: viewerToken}[who.Role], Path)
			b.until("header .chip", string(who.Role))
			for _, path := range addresses(who) {
				b.open(http.StatusOK, path)
				b.judge(path)
			}
			b.open(http.StatusNotFound, "/console/none")
			b.judge("/console/none")
		})
	}
}

// judge checks the page's width, and its accessibility with axe.
func (b *tab) judge(name string) {
	b.t.Helper()
	if wide := evaluate[int](b, "document.documentElement.scrollWidth - innerWidth"); wide > 0 {
		b.t.Errorf("%s is %d px wider than the window", name, wide)
	}
	axe, err := os.ReadFile("testdata/axe/axe.min.js")
	must(b.t, err)
	b.do(chromedp.Evaluate[chromedp.Void](string(axe)))
	found := evaluate[string](b, `axe.run({runOnly: {type: "tag", values: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"]}, resultTypes: ["violations"]}).then((r) =>
		JSON.stringify(r.violations.map((v) => v.id + ": " + v.help + ": " + v.nodes.map((n) => n.html + " " + (n.any[0]?.message ?? n.failureSummary)).join("\n  "))))`)
	var violations []string
	must(b.t, json.Unmarshal([]byte(found), &violations))
	for _, v := range violations {
		b.t.Errorf("%s: %s", name, v)
	}
	b.shoot(name)
}

// shoot saves a screenshot in the folder PUSHPACE_SCREENSHOTS, if set.
func (b *tab) shoot(name string) {
	b.t.Helper()
	if folder := os.Getenv("PUSHPACE_SCREENSHOTS"); folder != "" {
		file := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(name), "-"), "-")
		b.picture(fmt.Sprintf("%s/%s %s.png", folder, file, b.look), chromedp.FullScreenshot(100))
	}
}

// picture saves a screenshot to a file.
func (b *tab) picture(file string, take chromedp.Action[[]byte]) {
	b.t.Helper()
	b.call(func(ctx context.Context) error {
		picture, err := chromedp.Run(ctx, take)
		if err != nil {
			return err
		}
		return os.WriteFile(file, picture, 0o644)
	})
}

// An open page updates itself while its reader does not use it, and shows whether it is updated.
func (s *site) testLive(t *testing.T) {
	t.Parallel()
	b := s.tab(t, look{width: 1440, scripted: true})
	b.signIn(operatorToken, Path)
	b.until("#state", "Updating")
	b.later()
	b.run("document.querySelector('main').append(document.createElement('dialog')), document.querySelector('dialog').showModal()")
	b.until("#state", "a dialog is open")
	b.still()
	b.run("document.querySelector('dialog').remove()")
	b.later()
	b.do(chromedp.Click(chromedp.CSS("#freeze")))
	b.until("#state", "Frozen")
	b.open(http.StatusOK, Path) // the next page is not updated either
	b.until("#state", "Frozen")
	b.do(chromedp.Click(chromedp.CSS("#freeze")))
	b.later()

	// a second tab signs out
	b.expect(http.StatusUnauthorized, Path)
	other := b.another()
	other.open(http.StatusOK, Path)
	mouse{other}.press("Sign out")
	b.until("#state", "Not up to date", "signed out")
	mouse{b}.press("Sign in")
	b.until("h1", "Sign in")
}

// later waits until the page has been updated.
func (b *tab) later() {
	b.t.Helper()
	was := evaluate[string](b, shown)
	b.untilTrue(fmt.Sprintf("%s !== %q", shown, was))
}

// still expects that the page is not updated for longer than the script's interval.
func (b *tab) still() {
	b.t.Helper()
	was := evaluate[string](b, shown)
	<-time.After(2500 * time.Millisecond)
	if now := evaluate[string](b, shown); now != was {
		b.t.Errorf("the page of %s has become that of %s", was, now)
	}
}

// shown is an expression for the instant of the page's content.
const shown = "document.querySelector('#now time').dateTime"

// Without Redis an open page shows since when it is outdated, and a new page reports the outage.
// Both recover by themselves.
func (s *site) testAway(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	away := serve(t, s.browser, s.Program, redis, "") // open to this machine
	open, failed := away.tab(t, look{width: 1440, scripted: true}), away.tab(t, look{width: 360, scripted: true})
	open.open(http.StatusOK, Path)
	open.later()
	redis.Pause(t)
	open.expect(http.StatusServiceUnavailable, Path)
	open.until("#state", "Not up to date since")
	failed.open(http.StatusServiceUnavailable, Path)
	failed.judge("away")
	redis.Resume(t)
	open.until("#state", "Updating")
	failed.until("h1", "Overview")
}
