// Package httplimit is net/http middleware that limits HTTP requests by a throttle.Limiter. Start
// with Middleware.
//
// A request is granted, or answered with 429 and not recorded in the timeline. Every reply
// shows the limits and the remaining requests in the fields of
// draft-ietf-httpapi-ratelimit-headers-11, and a 429 has a problem document.
//
// Invariants:
//   - Every granted request is its own admission, with a unique ID.
//   - A reply shows only limits that the limiter has checked: if there was no check, or the
//     denying rule is unknown, the reply has no RateLimit field.
//   - Clients never see the store's errors; Options.Report gets them.
package httplimit

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// Options configure a Middleware. The zero value is ready for use.
type Options struct {
	// OnError handles a request for which the limiter returns an error: Closed, the default,
	// answers 503; Open passes it on.
	OnError throttle.OnOutage
	// Report is called with each of these errors, for logging; nil disables it.
	Report func(*http.Request, error)
}

// Middleware limits HTTP requests. key returns the app, the user and the scopes for a request; the
// count of a rate is at most throttle.MaxEntries. ID, Horizon and Report are ignored. Requests
// without user or scopes pass.
//
// A request above a limit is answered with 429 (RFC 6585), Retry-After in whole seconds, rounded
// up, and a problem document (RFC 9457) of the type quota-exceeded. The timeline does not record
// the request.
//
// The fields RateLimit-Policy and RateLimit are those of draft-ietf-httpapi-ratelimit-headers-11:
// every rate and minimum gap is a policy named SCOPE:RULE, as in
//
//	RateLimit-Policy: "all:gap";q=1;w=1, "all:10/1m";q=10;w=60
//	RateLimit: "all:gap";r=0;t=1, "all:10/1m";r=9;t=60
//
// The draft has whole seconds only: shorter windows are rounded up. In the reply to a granted
// request, t is the whole window, so that r requests within it are always allowed. In a 429,
// RateLimit has only the violated policy, and t equals Retry-After.
func Middleware(l throttle.Limiter, key func(*http.Request) throttle.Request, o Options) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			request := key(r)
			if request.User == "" || len(request.Scopes) == 0 {
				next.ServeHTTP(w, r)
				return
			}
			request.ID, request.Horizon, request.Report = rand.Text(), 0, true // now or never
			d, err := l.Acquire(r.Context(), request)
			switch {
			case err != nil:
				if o.Report != nil {
					o.Report(r, err)
				}
				if o.OnError == throttle.Open {
					next.ServeHTTP(w, r)
					return
				}
				unavailable503.answer(w, 1)
			case d.Status != throttle.Granted:
				Advertise(w.Header(), request.Scopes, d)
				over(d).answer(w, seconds(d.Left))
			default:
				Advertise(w.Header(), request.Scopes, d)
				next.ServeHTTP(w, r)
			}
		})
	}
}

// Advertise sets the draft's fields for a decision.
func Advertise(h http.Header, scopes []throttle.Scope, d throttle.Decision) {
	var policies, limits []string
	for _, s := range scopes {
		if gap := s.Policy.MinGap; gap > 0 {
			policies = append(policies, item(s.Name, throttle.GapRule, "q", 1, "w", seconds(gap)))
			limits = append(limits, item(s.Name, throttle.GapRule, "r", 0, "t", seconds(gap)))
		}
		for _, rate := range s.Policy.Rates {
			policies = append(policies, item(s.Name, rate.String(), "q", rate.Count, "w", seconds(rate.Period)))
			i := slices.IndexFunc(d.Remaining, func(left throttle.Remaining) bool { return left.Scope == s.Name && left.Rate == rate })
			if i >= 0 {
				limits = append(limits, item(s.Name, rate.String(), "r", d.Remaining[i].Count, "t", seconds(rate.Period)))
			}
		}
	}
	switch {
	case d.Unchecked, d.Status != throttle.Granted && d.Rule == "":
		limits = nil // the limits' state is unknown
	case d.Status != throttle.Granted:
		limits = []string{item(d.Scope, d.Rule, "r", 0, "t", seconds(d.Left))}
	}
	if len(policies) > 0 {
		h.Set("RateLimit-Policy", strings.Join(policies, ", "))
	}
	if len(limits) > 0 {
		h.Set("RateLimit", strings.Join(limits, ", "))
	}
}

// item returns a structured field (RFC 9651): a String with two parameters.
func item(scope, rule, first string, a int, second string, b int) string {
	return `"` + policyName(scope, rule) + `";` + first + "=" + strconv.Itoa(a) + ";" + second + "=" + strconv.Itoa(b)
}

// policyName returns plain ASCII without quotes: Escape and the text of rules contain nothing else.
func policyName(scope, rule string) string { return throttle.Escape(scope) + ":" + rule }

// seconds rounds up.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// A problem is a problem document.
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Violated []string `json:"violated-policies,omitempty"`
}

var unavailable503 = problem{
	Type:   "about:blank",
	Title:  http.StatusText(http.StatusServiceUnavailable),
	Status: http.StatusServiceUnavailable,
}

// over returns the draft's problem of the type quota-exceeded.
func over(d throttle.Decision) problem {
	p := problem{
		Type:   "https://iana.org/assignments/http-problem-types#quota-exceeded",
		Title:  "Request cannot be satisfied as assigned quota has been exceeded",
		Status: http.StatusTooManyRequests,
	}
	if d.Rule != "" {
		p.Violated = []string{policyName(d.Scope, d.Rule)}
	}
	return p
}

func (p problem) answer(w http.ResponseWriter, retryAfter int) {
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and a number
	}
	h := w.Header()
	h.Set("Retry-After", strconv.Itoa(max(1, retryAfter)))
	h.Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // the client may have left
}
