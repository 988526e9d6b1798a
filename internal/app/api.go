package app

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/pushpace/pushpace/internal/api"
	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/console"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
)

// An apiServer is the HTTP API that serve runs.
type apiServer struct {
	*api.API
	server *api.Server
}

// producerLanes is the number of a producer's pipelines in flight.
const producerLanes = 2

// serveAPI starts the API at http.listen.
func (s *System) serveAPI(cfg *config.Config, log *slog.Logger) error {
	producing, end := pipeline.Share(s.client, pipeline.Options{Timeout: cfg.Redis.Timeout, Lanes: producerLanes})
	s.Add(func() error { end(); return nil })
	s.tokens.Set(cfg.HTTP.Tokens)
	o := operate.Options{
		Producer: s.traces.Producer(push.NewProducer(producing, cfg.Redis.Prefix, cfg.Worker.IDRetention).WithShards(cfg.Redis.Shards).WithTimeZone(cfg.Limits.TimeZone)).Producer, Records: s.Records,
		Control: control.New(s.Queue, s.Records, s.limiter, s.limits), Inspect: inspect.New(s.Queue, s.Records, s.limiter, s.limits), Limits: s.limits, Overrides: s.overrides, Follows: true,
		Preview: &operate.Previewer{Limits: s.limits, Lines: s.lines, Apps: s.apps.Names()},
		Meter:   s.meter, Quotas: s.allQuotas, Apps: s.apps, Queue: s.client, LimitsRedis: s.limitsRedis,
		Within: cfg.HTTP.Timeout, Log: log,
	}
	service := operate.New(o)
	s.Add(func() error { service.Close(); return nil })
	a := &apiServer{API: api.New(api.Options{HTTP: cfg.HTTP, Tokens: &s.tokens, Service: service, Meter: s.meter, Log: log})}
	var err error
	handler := s.traces.HTTP(s.metrics.HTTP(a.API), a.Knows)
	if cfg.HTTP.Console.Enabled {
		o.Fresh, o.Within = console.Fresh, console.Within
		looking := operate.New(o)
		s.Add(func() error { looking.Close(); return nil })
		pages := console.New(console.Options{
			Config: cfg, Tokens: &s.tokens, Service: looking, Sessions: console.NewSessions(s.client, cfg.Redis.Prefix), Meter: s.meter, Version: BuildVersion().Version, Log: log,
		})
		s.Add(func() error { pages.Close(); return nil })
		handler = withConsole(pages, handler)
	}
	if a.server, err = api.Serve(s.listeners.api, cfg.HTTP, s.withHealth(handler), log); err != nil {
		return err
	}
	if len(cfg.HTTP.Tokens) == 0 {
		log.Warn("the API takes requests from everyone on this machine: http.tokens is empty")
	} else if !cfg.HTTP.TLS.Enabled() && !cfg.HTTP.Listen.Loopback() {
		log.Warn("the API takes tokens without TLS: set http.tls, or run it behind a proxy with TLS")
	}
	addresses := []any{"url", a.server.URL()}
	if cfg.HTTP.Console.Enabled {
		addresses = append(addresses, "console", a.server.URL()+console.Path)
	}
	log.Info("api", addresses...)
	s.api = a
	return nil
}

// withConsole routes the console's path to its pages: a bearer token opens no page, and a cookie
// authorizes no API request. A browser at / is redirected to the console.
func withConsole(pages, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path+"/", console.Path) {
			pages.ServeHTTP(w, r)
			return
		}
		if r.URL.Path == "/" && r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html") {
			http.Redirect(w, r, console.Path, http.StatusSeeOther)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// followLimits applies changed overrides to the limits until the returned function is called.
func (s *System) followLimits() func() error {
	ctx, stop := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { s.overrides.Follow(ctx, s.limits, nil) })
	return func() error { stop(); following.Wait(); return nil }
}

// withHealth adds the probes, which need no token and have no bound of requests
// at once.
func (s *System) withHealth(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if get := r.Method == http.MethodGet || r.Method == http.MethodHead; get && (r.URL.Path == "/healthz" || r.URL.Path == "/readyz") {
			s.health.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// stop stops accepting requests, and waits for the requests in flight.
func (a *apiServer) stop(within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	defer a.API.Close()
	return a.server.Shutdown(ctx)
}
