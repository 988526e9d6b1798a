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

// While Redis is away, or accepts and never answers, every page says so in time, with or
// without a sign-in, and comes again when Redis does: the browser is still signed in.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	for name, turn := range map[string]struct {
		leave, back func(*redistest.Server, testing.TB)
	}{
		"killed":  {(*redistest.Server).Kill, (*redistest.Server).Restart},
		"hanging": {(*redistest.Server).Pause, (*redistest.Server).Resume},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.AppendOnly())
			var cfg config.Redis
			cfg.SetDefaults()
			cfg.Timeout, cfg.DialTimeout = 8*time.Second, 8*time.Second // a page bounds it, or this does
			cfg.Address, cfg.Prefix = config.Address{Mode: config.Single, Hosts: []string{server.Addr()}}, "pushpace"
			conn, err := redisconn.Open(t.Context(), cfg, 64)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Client.Close() })
			open, closed := newRigOn(t, conn.Client), newRigOn(t, conn.Client, withTokens)
			closed.cookie = newRigOn(t, redistest.Connect(t, server.Options()), withTokens).as(operatorToken).cookie
			for _, r := range []*rig{open, closed} {
				r.setting.Work.Within = Within
				r.renew(Within)
			}
			ask := func(r *rig, path string) (int, string) {
				browser := *r
				recorder := httptest.NewRecorder()
				req := httptest.NewRequest(http.MethodGet, path, nil)
				if req.Host = "localhost"; r.cookie != nil {
					req.AddCookie(r.cookie)
				}
				browser.console.ServeHTTP(recorder, req)
				return recorder.Code, recorder.Body.String()
			}
			pages := map[string]int{}
			for _, route := range routes {
				if route.method == http.MethodGet && route.action != nil && route.serve == nil {
					path := filled(route.path)
					eventually.Holds(t, path+" is shown", func() bool { // on a machine that is busy
						pages[path], _ = ask(open, path)
						return pages[path] != http.StatusServiceUnavailable
					})
				}
			}
			turn.leave(server, t)
			t.Run("away", func(t *testing.T) {
				for path, before := range pages {
					for who, r := range map[string]*rig{"without tokens": open, "signed in": closed} {
						t.Run(path+" "+who, func(t *testing.T) {
							t.Parallel()
							status, text := ask(r, path)
							if away := status == http.StatusServiceUnavailable && strings.Contains(text, "Redis"); !away && (r == closed || status != before) {
								t.Errorf("%d, before %d: %s", status, before, text)
							}
						})
					}
				}
			})
			turn.back(server, t)
			for path, before := range pages {
				for _, r := range []*rig{open, closed} {
					status := 0
					if !eventually.Within(eventually.Patience, func() bool { status, _ = ask(r, path); return status == before }) {
						t.Errorf("%s: %d once Redis is back, before %d", path, status, before)
					}
				}
			}
		})
	}
}
