// Package api is the HTTP API, for producers that are not written in Go and for
// operators. openapi.json describes it.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/base/logdedup"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/throttle/meter"
)

// Options are an API's parts. All are required unless noted.
type Options struct {
	// HTTP has the API's bounds, and Tokens its principals.
	HTTP    config.HTTP
	Tokens  *operate.Tokens
	Service *operate.Service
	// Meter counts the requests of API tokens that have a rate. Optional without such API tokens.
	Meter meter.Meter
	// Local is the principal of every request if only this process makes requests: they need
	// no tokens, and no bounds of HTTP. Nil for an API that listens.
	Local *operate.Principal
	Log   *slog.Logger // nil for slog.Default
}

// An API answers requests. It is an http.Handler; Close it.
type API struct {
	o        Options
	log      *slog.Logger
	mux      *http.ServeMux
	backlog  backlog
	requests chan struct{} // holds an entry for each request that has arrived and is being answered
	bodies   *budget
	repeats  logdedup.Log // of lines that clients can cause again and again
}

// New returns an API.
func New(o Options) *API {
	if o.Local != nil {
		o.HTTP, o.Tokens = config.HTTP{MaxRequests: localRequests, MaxBody: localBody, Timeout: localTimeout}, new(operate.Tokens)
	}
	a := &API{o: o, log: o.Log, mux: http.NewServeMux(), requests: make(chan struct{}, o.HTTP.MaxRequests)}
	if a.log == nil {
		a.log = slog.Default()
	}
	a.bodies = newBudget(o.HTTP.MaxRequests, int64(o.HTTP.MaxBody), o.HTTP.Timeout)
	a.backlog = backlog{most: int64(o.HTTP.MaxQueue), count: o.Service.CountStored}
	allowed := map[string][]string{}
	for _, r := range routes {
		a.mux.Handle(r.method+" "+r.path, a.handler(r))
		allowed[r.path] = append(allowed[r.path], r.method)
		if r.method == http.MethodGet {
			allowed[r.path] = append(allowed[r.path], http.MethodHead)
		}
	}
	for path, methods := range allowed {
		a.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", strings.Join(methods, ", "))
			a.fail(w, r, path, "", &problem{Status: http.StatusMethodNotAllowed, Detail: "This path takes " + strings.Join(methods, ", ") + "."})
		})
	}
	a.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { a.fail(w, r, "", "", errNotFound) })
	return a
}

// The bounds of an API that answers only its own process, as with Options.Local.
const (
	localRequests = 1000
	localBody     = 1 << 30
	localTimeout  = time.Hour
)

// Close waits for the API's background work.
func (a *API) Close() {
	a.backlog.measuring.Wait()
	a.repeats.Close()
}

var errNotFound = &problem{Status: http.StatusNotFound, Detail: "There is nothing at this path; /openapi.json lists the paths."}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		switch cause := recover(); cause {
		case nil:
		case http.ErrAbortHandler:
			panic(cause)
		default: // a panic's text may hold secrets
			if a.o.Local != nil { // the caller sees no log
				panic(cause)
			}
			a.repeats.Write(r.Context(), a.log, slog.LevelError, "a request panicked", nil, slog.String("stack", string(debug.Stack())))
			a.fail(w, r, r.Pattern, "", &problem{Status: http.StatusInternalServerError})
		}
	}()
	// The mux would redirect to a clean path.
	if escaped := r.URL.EscapedPath(); len(escaped) > maxPath && a.o.Local == nil || escaped != path.Clean(escaped) {
		a.fail(w, r, "", "", errNotFound)
		return
	}
	a.mux.ServeHTTP(w, r)
}

// maxPath bounds an escaped path: two names with every byte escaped, and the text around them.
const maxPath = 1024

// A call is a request that its caller may make, and that has arrived whole.
type call struct {
	*http.Request
	query url.Values
	body  []byte
	who   operate.Principal
	as    *operate.Operator
	// header is the answer's header.
	header http.Header
}

// A reply is an answer's status and its JSON value, or no body.
type reply struct {
	status int
	value  any
}

// handler answers the route's requests.
func (a *API) handler(r route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		who, err := a.identify(req, r.action)
		if err != nil {
			a.fail(w, req, r.path, who.Name, err)
			return
		}
		if r.serve != nil {
			r.serve(a, w, req)
			return
		}
		answer, err := a.answer(w, req, r, who)
		if err == nil {
			err = answer.write(w)
		}
		if err != nil {
			a.fail(w, req, r.path, who.Name, err)
		}
	})
}

func (a *API) answer(w http.ResponseWriter, req *http.Request, r route, who operate.Principal) (reply, error) {
	c := &call{Request: req, who: who, as: a.o.Service.As(who, req.RemoteAddr), header: w.Header()}
	var err error
	if c.query, err = readQuery(req.URL.RawQuery, r.query, r.several); err != nil {
		return reply{}, err
	}
	if err := checkNames(req.Method, c.query); err != nil {
		return reply{}, err
	}
	if r.takes {
		if err := checkBody(req, int64(a.o.HTTP.MaxBody)); err != nil {
			return reply{}, err
		}
		charge, err := a.bodies.begin(req.Context(), who.Name)
		if err != nil {
			return reply{}, err
		}
		defer charge.giveBack()
		c.body, err = readBody(w, req, charge, int64(a.o.HTTP.MaxBody))
		charge.arrived()
		if err != nil {
			return reply{}, err
		}
	}
	select {
	case a.requests <- struct{}{}:
		defer func() { <-a.requests }()
	default:
		return reply{}, errTooMuchWork
	}
	ctx, cancel := context.WithTimeout(req.Context(), a.o.HTTP.Timeout)
	defer cancel()
	if !r.charges {
		if err := a.charge(ctx, c, 1); err != nil {
			return reply{}, err
		}
	}
	return r.handle(a, ctx, c)
}
