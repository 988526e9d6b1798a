// Package httplimit throttles HTTP requests by a throttle.Limiter, as net/http
// middleware.
//
// A request is asked for now or never: it is admitted, or answered with 429 and
// leaves no trace in the timeline. So that clients need not guess, every reply
// says what the limits are and what is left of them, in the fields of
// draft-ietf-httpapi-ratelimit-headers-11, and a 429 is a problem document.
//
// Invariants:
//   - Every request is an admission of its own, with an ID that nobody repeats.
//   - No reply says more of a limit than the limiter has checked: where the store
//     was away, or the limiter names no rule, RateLimit is left out.
//   - No client reads an error of the store; Options.Report does.
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
	// OnError is what becomes of a request that the limiter answers with an
	// error: Closed, the default, answers 503; Open lets it pass.
	OnError throttle.OnOutage
	// Report is told of each such error, to log it; nil for nobody.
	Report func(*http.Request, error)
}

// Middleware throttles HTTP requests. The key function says whose timeline a
// request belongs to and which scopes limit it, by rates that count throttle.MaxEntries
// at most; ID, Horizon, Wait and Report of
// what it returns are not used. A key without a user or scopes passes the
// request.
//
// A request that is over a limit is answered with 429 (RFC 6585), Retry-After
// in whole seconds, rounded up, and a problem document (RFC 9457) of the type
// quota-exceeded. It leaves no trace in the timeline.
//
// The fields RateLimit-Policy and RateLimit are those of
// draft-ietf-httpapi-ratelimit-headers-11: every rate and minimum gap is a
// policy named SCOPE:RULE, as in
//
//	RateLimit-Policy: "all:gap";q=1;w=1, "all:10/1m";q=10;w=60
//	RateLimit: "all:gap";r=0;t=1, "all:10/1m";r=9;t=60
//
// The draft knows whole seconds only: shorter windows are rounded up. On a
// request that passes, t is the whole window: no more than r requests within it
// is always allowed. On a 429, RateLimit names the policy that it violates, and
// t is what Retry-After says.
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

// Advertise sets the draft's fields for a decision, as Middleware does.
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
		limits = nil // nothing is known of them
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

// item writes a String with two parameters as a structured field (RFC 9651).
func item(scope, rule, first string, a int, second string, b int) string {
	return `"` + policyName(scope, rule) + `";` + first + "=" + strconv.Itoa(a) + ";" + second + "=" + strconv.Itoa(b)
}

// policyName is plain ASCII without quotes: escape leaves no other byte, and
// rules have none.
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

// over is the problem type quota-exceeded of the draft.
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
