//go:build unix && e2e

package console

import (
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/pushpace/pushpace/internal/redistest"
)

// testPictures takes the pictures of the README, of what goes on for half a minute, into
// the folder that PUSHPACE_PICTURES names.
func (s *site) testPictures(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("PUSHPACE_PICTURES")
	if folder == "" {
		t.Skip("PUSHPACE_PICTURES names no folder")
	}
	shown := &site{browser: s.browser, binary: s.binary, dir: t.TempDir()}
	shown.url = shown.serve(t, redistest.Start(t), `
limits:
  default: {min_gap: 1s, rates: [10/1m, 100/24h]}
  categories: {orders: {}, chat: {rates: [6/1m]}, marketing: {rates: [1/24h]}, security: {exempt: true}}
apps: {demo: {simulated: true}}
`, guarded)
	shown.goOn(t)
	for _, p := range []struct {
		file string
		look look
		path string
	}{
		{"console-user.png", look{width: 1000, scripted: true}, "/console/users/ada?app=demo"},
		{"console-overview.png", look{width: 1000, scripted: true, dark: true}, Path},
		{"console-phone.png", look{width: 360, scripted: true}, "/console/notifications/ada-chat-13"},
	} {
		b := shown.tab(t, p.look)
		b.signIn(operatorToken, p.path)
		b.until("#state", "Updating")
		b.picture(folder+"/"+p.file, chromedp.CaptureScreenshot())
	}
}

// goOn has something go on: ten messages a second to others, and to ada what her limits
// hold back.
func (s *site) goOn(t *testing.T) {
	t.Helper()
	users := []string{"ben", "cleo", "dan", "eva", "finn", "gita", "hugo", "ida"}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for i := range 350 {
		user := users[i*i%len(users)]
		category := []string{"orders", "chat", "orders", "marketing", "security"}[i%5]
		s.ask(t, http.MethodPost, "/v1/notifications", fmt.Sprintf(`{"id":"%s-%s-%d","app":"demo","user":%q,"category":%q,"title":"Hello","targets":[{"platform":"fcm","token":"%s-pixel"}]}`, user, category, i, user, category, user))
		switch i {
		case 50:
			s.send(t, 2, "ada", "marketing")
		case 100:
			s.send(t, 3, "ada", "orders")
		case 250:
			s.send(t, 14, "ada", "chat")
		case 300:
			s.send(t, 1, "ada", "security")
		}
		<-tick.C
	}
}
