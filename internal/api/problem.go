package api

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/api/problems"
)

// A problem is an error in an answer; a fault is one error of a body, at a JSON pointer.
type (
	problem = problems.Problem
	result  = problems.Result
	fault   struct{ pointer, detail string }
)

// comeAgain is the Retry-After while there is no room.
const comeAgain = problems.ComeAgain

// invalid returns the answer to a body with faults.
func invalid(faults []fault) *problem {
	all := make([]problems.Fault, len(faults))
	for i, f := range faults {
		all[i] = problems.Fault{Pointer: f.pointer, Detail: f.detail}
	}
	return problems.Invalid(all)
}

// fail answers a failed request and logs it. Of the client's text the log shows only the method
// and the address.
func (a *API) fail(w http.ResponseWriter, r *http.Request, pattern, who string, err error) {
	p := *problems.Of(err)
	more := []slog.Attr{slog.String("remote", r.RemoteAddr)}
	if p.Cause != nil {
		more = append(more, slog.String("cause", p.Why()))
	}
	a.repeats.Write(r.Context(), a.log, p.Level(), "a request failed", []slog.Attr{
		slog.String("method", method(r)), slog.String("route", pattern), slog.Int("status", p.Status), slog.String("token", who),
	}, more...)
	if p.Status == problems.Gone {
		return
	}
	if a.o.Local != nil && p.Cause != nil { // the caller sees no log
		p.Detail = strings.TrimSuffix(p.Detail, ".") + ": " + p.Why()
	}
	p.Title = http.StatusText(p.Status)
	h := w.Header()
	switch p.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="pushpace"`)
	case http.StatusRequestTimeout, http.StatusRequestEntityTooLarge:
		h.Set("Connection", "close")
	}
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((p.RetryAfter+time.Second-1)/time.Second)))
	}
	text, err := json.Marshal(&p)
	if err != nil { // never: a problem holds texts and numbers
		panic(err)
	}
	writeJSON(w, p.Status, problems.Type, text)
	if p.Status == http.StatusRequestEntityTooLarge {
		discard(w, r)
	}
}

// method returns the request's method if HTTP defines it.
func method(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodTrace, http.MethodConnect:
		return r.Method
	}
	return "other"
}
