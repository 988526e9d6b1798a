package console

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/redistest"
)

// While Redis hangs, every page reports so within its time limit. When Redis answers again, the
// pages are back and the browser is still signed in.
func TestPagesReportHangingRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var all config.Config
	all.SetDefaults()
	cfg := all.Redis
	cfg.Timeout, cfg.DialTimeout = 8*time.Second, 8*time.Second // longer than a page may take
	cfg.Address, cfg.Prefix = config.Address{Mode: config.Single, Hosts: []string{server.Addr()}}, "pushpace"
	conn, err := redisconn.Open(t.Context(), cfg, 64)
	must(t, err)
	t.Cleanup(func() { _ = conn.Client.Close() })
	r := newRigOn(t, conn.Client, withTokens)
	r.cookie = newRigOn(t, redistest.Connect(t, server.Options()), withTokens).as(operatorToken).cookie
	r.setting.Work.Within = Within
	r.renew(Within)
	ask := func(path string) (int, string) {
		browser, recorder, req := *r, httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)
		req.Host = "localhost"
		req.AddCookie(r.cookie)
		browser.console.ServeHTTP(recorder, req)
		return recorder.Code, recorder.Body.String()
	}
	pages := map[string]int{}
	for _, route := range routes {
		if route.method == http.MethodGet && route.action != nil && route.serve == nil {
			path := filled(route.path)
			eventually.Holds(t, path+" is shown", func() bool { // a busy machine may need several tries
				pages[path], _ = ask(path)
				return pages[path] != http.StatusServiceUnavailable
			})
		}
	}
	server.Pause(t)
	t.Run("away", func(t *testing.T) {
		for path := range pages {
			t.Run(path, func(t *testing.T) {
				t.Parallel()
				if status, text := ask(path); status != http.StatusServiceUnavailable || !strings.Contains(text, "Redis") {
					t.Errorf("%d: %s", status, text)
				}
			})
		}
	})
	server.Resume(t)
	for path, before := range pages {
		eventually.Holds(t, path+" comes again", func() bool { status, _ := ask(path); return status == before })
	}
}

// While Redis is unreachable, the error page has the last known numbers.
func TestErrorPageHasLastKnownNumbers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := newRigOn(t, redistest.Connect(t, server.Options()), func(s *setting) { s.Work.Within = 2 * time.Second })
	r.enqueue(toUser("one", "ada", "news"))
	eventually.Holds(t, "the overview is read", func() bool { return strings.Contains(r.get(http.StatusOK, Path), "1 notification waits") })
	server.Pause(t)
	defer server.Resume(t)
	eventually.Holds(t, "Redis is away", func() bool {
		return r.send(httptest.NewRequest(http.MethodGet, Path, nil)).StatusCode == http.StatusServiceUnavailable
	})
	contains(t, r.get(http.StatusServiceUnavailable, Path), "1 notification waited, 0 workers ran.")
}
