package webpush_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/providertest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/providers/webpush"
	"github.com/pushpace/pushpace/providers/webpush/webpushtest"
	"github.com/pushpace/pushpace/push"
)

// A hostileServer is a server for each name below example.com and for Google's name, with a sender
// that dials only this server.
type hostileServer struct {
	standin.Counters
	sender *webpush.Sender
}

func newHostileServer(t *testing.T, handler http.HandlerFunc) *hostileServer {
	t.Helper()
	h := &hostileServer{}
	server, err := standin.NewHTTPS(standin.HTTPSOptions{Names: []string{"*.example.com", "fcm.googleapis.com"}, Counters: &h.Counters})
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	server.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		handler(w, r)
	}))
	_, cfg := start(t, webpushtest.Options{}) // only for its key
	cfg.Endpoint, cfg.Hosts, cfg.RootCAFile = "", []string{"*"}, filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(cfg.RootCAFile, server.CA(), 0o600))
	h.sender, err = webpush.NewDialing(cfg, func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, strings.TrimPrefix(server.URL(), "https://"))
	})
	must(t, err)
	t.Cleanup(func() { _ = h.sender.Close() })
	return h
}

// hostileTime bounds a host's answer, from the request on.
const hostileTime = 500 * time.Millisecond

func TestEndlessAnswersAreBounded(t *testing.T) {
	junk := bytes.Repeat([]byte("capability "), 4096)
	slowly := func(w http.ResponseWriter, r *http.Request, atOnce, text string) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer func() { _ = c.Close() }()
		_, _ = io.WriteString(c, atOnce)
		for i := range len(text) {
			if _, err := io.WriteString(c, text[i:i+1]); err != nil {
				return
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-r.Context().Done():
			}
		}
	}
	for _, c := range []struct {
		name     string
		endpoint string
		handler  http.HandlerFunc
		kind     providers.Kind
		reason   providers.Reason
	}{
		{"a refusal of 4 GB", "https://fcm.googleapis.com/x", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			for range 4 << 30 / len(junk) {
				if _, err := w.Write(junk); err != nil {
					return
				}
			}
		}, providers.Rejected, webpush.BadRequest},
		{"a header of 1 MB", "https://a.example.com/x", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
		}, providers.Retry, providers.ConnectionLost},
		{"early hints without end", "https://a.example.com/x", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<10))
			for r.Context().Err() == nil {
				w.WriteHeader(http.StatusEarlyHints)
			}
		}, providers.Retry, providers.ConnectionLost},
		{"a header a byte at a time", "https://a.example.com/x", func(w http.ResponseWriter, r *http.Request) {
			slowly(w, r, "HTTP/1.1 201 Created\r\n", strings.Repeat("X: x\r\n", 1000))
		}, providers.Retry, providers.TimedOut},
		{"a body a byte at a time", "https://a.example.com/x", func(w http.ResponseWriter, r *http.Request) {
			slowly(w, r, "HTTP/1.1 400 Bad Request\r\n\r\n", strings.Repeat("x", 10_000))
		}, providers.Rejected, webpush.BadRequest},
		{"no answer", "https://a.example.com/x", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, providers.Retry, providers.TimedOut},
		{"no HTTP", "https://a.example.com/x", func(w http.ResponseWriter, r *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = io.WriteString(c, "capability capability\r\n\r\n")
				_ = c.Close()
			}
		}, providers.Retry, providers.ConnectionLost},
		{"a status that is none", "https://a.example.com/x", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(999) }, providers.Retry, webpush.ServerError},
	} {
		t.Run(c.name, func(t *testing.T) { // one after the other: memory is measured
			ctx := providertest.NewDeadline(t.Context())
			h := newHostileServer(t, func(w http.ResponseWriter, r *http.Request) {
				time.AfterFunc(hostileTime, ctx.Pass)
				c.handler(w, r)
			})
			to := webpushtest.Subscription(c.endpoint)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			o := h.sender.Send(ctx, note(), to, providers.Departure{})
			runtime.ReadMemStats(&after)
			if o.Kind != c.kind || o.Reason != c.reason || o.Err == nil || strings.Contains(o.Err.Error(), "capability") {
				t.Errorf("%v %s (%v)", o.Kind, o.Reason, o.Err)
			}
			// The peer runs in this process, so its writes count too.
			if grown := int64(after.HeapInuse) - int64(before.HeapInuse); grown > 32<<20 {
				t.Errorf("%d MiB more memory", grown>>20)
			}
		})
	}
}

// Any number of hosts, with any behaviour, uses bounded resources, and pushes to a known service
// continue.
func TestManyHostileHostsAreBounded(t *testing.T) {
	h := newHostileServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Host == "fcm.googleapis.com":
			w.WriteHeader(http.StatusCreated)
		case strings.HasPrefix(r.Host, "hole"):
			select {
			case <-time.After(hostileTime):
			case <-r.Context().Done():
			}
			panic(http.ErrAbortHandler)
		case strings.HasPrefix(r.Host, "down"):
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			w.WriteHeader(http.StatusCreated)
		}
	})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	next := make(chan int)
	var workers sync.WaitGroup
	var kept, google atomic.Int64
	for range 32 {
		workers.Go(func() {
			for i := range next {
				name := [...]string{"fine", "down", "fine", "down", "fine"}[i%5]
				if i%20 == 0 {
					name = "hole"
				}
				o := h.sender.Send(t.Context(), note(), webpushtest.Subscription(fmt.Sprintf("https://%s-%d.example.com/x", name, i)), providers.Departure{})
				if o.Kind != providers.Delivered && o.Concerns != providers.ConcernsToken {
					t.Errorf("%s: concerns %d (%v)", name, o.Concerns, o.Err)
				}
				if o.Kind == providers.Delivered {
					kept.Add(1)
				}
			}
		})
	}
	done := make(chan struct{})
	workers.Go(func() { // to a known service, in parallel
		to := target(push.WebPushGoogle, "device")
		for {
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
			}
			if o := h.sender.Send(t.Context(), note(), to, providers.Departure{}); o.Kind != providers.Delivered {
				t.Errorf("Google: %v (%v)", o.Reason, o.Err)
			}
			google.Add(1)
		}
	})
	for i := range manyOrigins {
		next <- i
	}
	close(next)
	close(done)
	workers.Wait()
	runtime.GC()
	runtime.ReadMemStats(&after)
	grown := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d of %d delivered, %d to Google, %d connections open, %d KiB more memory", kept.Load(), manyOrigins, google.Load(), h.Count().Open, grown>>10)
	if n := h.Count().Open; n > 64+8 { // some connections may still be closing
		t.Errorf("%d connections are open, want at most 64", n)
	}
	if grown > 32<<20 {
		t.Errorf("%d MiB more memory, want at most 32", grown>>20)
	}
	if google.Load() == 0 || kept.Load() == 0 {
		t.Errorf("%d delivered, %d to Google", kept.Load(), google.Load())
	}
}
