// Package console serves the operators' pages: throughput, waiting notifications with their
// reasons and times, and the actions on them. Start with New.
//
// Each page is a GET with its state in the URL, made by a pure function from the results of the
// visitor's operate.Operator. Each change is a POST that answers with a redirect. Package operate
// decides permissions; this package must not. All pages work without scripts: static/console.js
// only updates open pages.
package console

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"time"

	"github.com/pushpace/pushpace/internal/base/logdedup"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/throttle/meter"
)

// Path is the address of the first page; the others are below it.
const Path = "/console/"

// Options configure a console.
type Options struct {
	// Config is the configuration in force.
	Config *config.Config
	Tokens *operate.Tokens
	// Service answers the visitors' reads and runs their actions. Its cached results should live
	// a little less than the script's poll interval (see Fresh), so that many open pages read
	// Redis no more often than one.
	Service  *operate.Service
	Sessions Sessions
	Meter    meter.Meter // counts sign-ins
	// Version is the program's version, for the foot of pages; "" omits it.
	Version string
	Log     *slog.Logger // nil for slog.Default
}

// A Console is the http.Handler of all addresses below Path. Close it.
type Console struct {
	o        Options
	log      *slog.Logger
	mux      *http.ServeMux
	foreign  *http.CrossOriginProtection
	origin   string // http.console.origin
	sessions Sessions
	repeats  logdedup.Log  // limits log lines that visitors can cause
	requests chan struct{} // one entry per request in progress
	within   time.Duration // bounds the reads of a page
}

const (
	// Fresh and Within are the values of operate.Options for a console's service. Within is below
	// a second, so that a page reports an unreachable Redis within a second.
	Fresh  = 1800 * time.Millisecond
	Within = 900 * time.Millisecond
)

// requestShare divides http.max_requests: the quotient, at least 1, bounds the console's requests
// at once.
const requestShare = 4

// New returns a console.
func New(o Options) *Console { return newConsole(o, Within) }

func newConsole(o Options, within time.Duration) *Console {
	c := &Console{o: o, log: o.Log, mux: http.NewServeMux(), foreign: http.NewCrossOriginProtection(), within: within}
	c.log = cmp.Or(c.log, slog.Default())
	c.sessions = o.Sessions
	if c.origin = o.Config.HTTP.Console.Origin; c.origin != "" {
		if err := c.foreign.AddTrustedOrigin(c.origin); err != nil { // the configuration is valid
			panic(err)
		}
	}
	c.requests = make(chan struct{}, max(1, o.Config.HTTP.MaxRequests/requestShare))
	for _, r := range routes {
		c.mux.Handle(r.method+" "+r.path, c.handler(r))
	}
	c.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { c.fail(w, c.anonymous(r), errNotFound) })
	return c
}

// Close logs the repeats that are not logged yet.
func (c *Console) Close() { c.repeats.Close() }

// header holds the headers of every answer. Source: OWASP Secure Headers. Referrer-Policy: URLs
// contain names of users, which must not reach other origins; with no-referrer a form would carry
// Origin: null (fetch.spec.whatwg.org, "append a request Origin header").
var header = map[string]string{
	"Content-Security-Policy":    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
	"X-Content-Type-Options":     "nosniff",
	"Referrer-Policy":            "same-origin",
	"Cross-Origin-Opener-Policy": "same-origin",
	"Cache-Control":              "no-store",
}

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range header {
		w.Header().Set(name, value)
	}
	defer func() {
		switch cause := recover(); cause {
		case nil:
		case http.ErrAbortHandler:
			panic(cause)
		default: // the panic's text may hold secrets: it is not logged
			c.repeats.Write(r.Context(), c.log, slog.LevelError, "a page panicked", nil, slog.String("stack", string(debug.Stack())))
			c.fail(w, c.anonymous(r), errPanicked)
		}
	}()
	if !tidy(r.URL.EscapedPath()) {
		c.fail(w, c.anonymous(r), errNotFound)
		return
	}
	if r.Method == http.MethodPost && c.foreign.Check(r) != nil {
		c.fail(w, c.anonymous(r), errForeign)
		return
	}
	c.mux.ServeHTTP(w, r)
}

// tidy reports whether an escaped path is clean and at most maxPath bytes long. The mux would
// redirect an unclean path.
func tidy(escaped string) bool {
	clean := path.Clean(escaped)
	return len(escaped) <= maxPath && (clean == escaped || clean+"/" == escaped)
}

const (
	// maxPath bounds an escaped path, in bytes: two names with every byte escaped, and the text
	// between them.
	maxPath = 1024
	// maxForm bounds a form, in bytes: a page's entries can all be selected, whatever their
	// names. maxPublicForm bounds a form that needs no sign-in.
	maxForm       = 256 << 10
	maxPublicForm = 8 << 10
)

// handler returns the handler of a route.
func (c *Console) handler(r route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		v, err := c.visit(req, r)
		if err == nil && r.serve != nil {
			err = r.serve(c, w, v)
		} else if err == nil {
			err = c.answer(w, v, r)
		}
		if err != nil {
			c.fail(w, v, err)
		}
	})
}

func (c *Console) answer(w http.ResponseWriter, v *visit, r route) error {
	leave, err := c.enter()
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(v.Context(), cmp.Or(r.within, c.within)-v.spent)
	defer cancel()
	page, err := r.handle(c, ctx, v)
	if err != nil {
		return err
	}
	if page.cookie != nil {
		http.SetCookie(w, page.cookie)
	}
	if page.to != "" {
		http.Redirect(w, v.Request, page.to, http.StatusSeeOther)
		return nil
	}
	return c.render(w, v, page)
}

// enter takes one of the permits for requests; leave releases it.
func (c *Console) enter() (leave func(), err error) {
	select {
	case c.requests <- struct{}{}:
		return func() { <-c.requests }, nil
	default:
		return nil, errBusy
	}
}
