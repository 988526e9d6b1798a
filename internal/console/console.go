// Package console is the operators' pages: what flows, who waits and why, until
// when, and what to do about it.
//
// Each page is a GET whose state is in its URL, made by a pure function from what the
// visitor's operate.Operator tells; each change is a POST that is answered with a
// redirect. Who may see and do what is decided there, not here. It all works without
// scripts: static/console.js only keeps open pages up to date.
package console

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"time"

	"github.com/pushpace/pushpace/internal/base/repeats"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/throttle/meter"
)

// Path is that of the first page; the others are below it.
const Path = "/console/"

// Options say what a console works with.
type Options struct {
	// Config is the configuration in force.
	Config *config.Config
	Tokens *operate.Tokens
	// Service is what visitors look at and act with. What it tells again should be a
	// little younger than the time between two looks of the script, Fresh, so that many
	// pages, each at its own instant, ask Redis no more often than one.
	Service  *operate.Service
	Sessions Sessions
	Meter    meter.Meter // counts sign-ins
	// Version is the program's, for the foot of pages; "" for none.
	Version string
	Log     *slog.Logger // nil for slog.Default
}

// A Console answers what is below Path. It is an http.Handler; Close it.
type Console struct {
	o        Options
	log      *slog.Logger
	mux      *http.ServeMux
	foreign  *http.CrossOriginProtection
	origin   string // http.console.origin
	sessions Sessions
	repeats  repeats.Log   // what visitors can have it say again and again
	requests chan struct{} // holds one entry for each that is being answered
	within   time.Duration // how long reading for a page may take
}

const (
	// Fresh and Within are what a service for a console has: see operate.Options. A Redis
	// that is away is told of within a second.
	Fresh  = 1800 * time.Millisecond
	Within = 900 * time.Millisecond
)

// requestShare is what of http.max_requests is the console's.
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
	c.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { c.fail(w, c.stranger(r), errNotFound) })
	return c
}

// Close tells the log what it has not been told of.
func (c *Console) Close() { c.repeats.Close() }

// header is what every answer has.
// Source: OWASP Secure Headers. Referrer-Policy: names of users are in URLs, which no
// other origin is told; with no-referrer a form would come with Origin: null
// (fetch.spec.whatwg.org, "append a request Origin header").
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
		default: // whose text may hold anything
			c.repeats.Tell(r.Context(), c.log, slog.LevelError, "a page panicked", nil, slog.String("stack", string(debug.Stack())))
			c.fail(w, c.stranger(r), errPanicked)
		}
	}()
	if !tidy(r.URL.EscapedPath()) {
		c.fail(w, c.stranger(r), errNotFound)
		return
	}
	if r.Method == http.MethodPost && c.foreign.Check(r) != nil {
		c.fail(w, c.stranger(r), errForeign)
		return
	}
	c.mux.ServeHTTP(w, r)
}

// tidy reports whether an escaped path is of a length that is read, and clean: the mux
// would redirect to one that is.
func tidy(escaped string) bool {
	clean := path.Clean(escaped)
	return len(escaped) <= maxPath && (clean == escaped || clean+"/" == escaped)
}

const (
	// maxPath bounds an escaped path: two names, every byte of them escaped, and what
	// is between them.
	maxPath = 1024
	// maxForm bounds a form, in bytes: all that a page shows may be selected, of whatever
	// names. maxStrangersForm bounds one of who has not signed in.
	maxForm          = 256 << 10
	maxStrangersForm = 8 << 10
)

// handler has r answered.
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

// enter takes one of the places for requests; leave gives it back.
func (c *Console) enter() (leave func(), err error) {
	select {
	case c.requests <- struct{}{}:
		return func() { <-c.requests }, nil
	default:
		return nil, errBusy
	}
}
