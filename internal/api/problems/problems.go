// Package problems has the errors that are answered to operators and producers, in one table: of
// each its code, status, title and detail. The API answers by it, its client reads the code back
// into the same error, and the console makes pages of it.
package problems

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// Type is the media type of a problem.
const Type = "application/problem+json"

// A Problem is an error as it is answered. Source: RFC 9457.
type Problem struct {
	// Code names the error, from a closed set; "" for one that concerns the request alone.
	Code   string `json:"code,omitempty"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Errors are all that is wrong with the request's body.
	Errors []Fault `json:"errors,omitempty"`
	// Apps are the apps to choose from.
	Apps []string `json:"apps,omitempty"`
	// Choices are the owners of the notifications, or dead letters, with the ID.
	Choices []Choice `json:"choices,omitempty"`
	// Carries is how many others the push of the notification reports.
	Carries int `json:"carries,omitempty"`
	// State is how the notification has ended.
	State push.State `json:"state,omitempty"`
	// ID is the notification's, where it is not known whether it was accepted.
	ID string `json:"id,omitempty"`
	// Results are a batch's results.
	Results []Result `json:"results,omitempty"`

	// RetryAfter is the wait before the same request may succeed; 0 when that is not known.
	RetryAfter time.Duration `json:"-"`
	// Host is the API that answered; "" for one in this process.
	Host string `json:"-"`
	// Cause is for the log; nil where the problem says it all.
	Cause error `json:"-"`
}

// A Fault is one thing that is wrong with a request, at a JSON pointer.
type Fault struct {
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

// A Choice is the owner of one of several notifications with the same ID.
type Choice struct {
	App  string `json:"app"`
	User string `json:"user"`
}

// A Result is the answer to one notification of a batch, with the status that it would have had
// alone.
type Result struct {
	ID       string   `json:"id,omitempty"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Errors   []Fault  `json:"errors,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// Error implements error. It names the API, and every fault with its pointer.
func (p *Problem) Error() string {
	var parts []string
	if p.Host != "" {
		parts = append(parts, fmt.Sprintf("the API at %s answered %d %s", p.Host, p.Status, http.StatusText(p.Status)))
	}
	if p.Detail != "" {
		parts = append(parts, strings.TrimSuffix(p.Detail, "."))
	}
	if len(p.Errors) > 0 {
		parts = append(parts, Faults(p.Errors, "").Error())
	}
	text := strings.Join(parts, ": ")
	if p.Status == http.StatusUnauthorized {
		text += ": give its token by --token-file or PUSHPACE_API_TOKEN"
	}
	return text
}

// Again reports whether the same request may be answered otherwise later.
func (p *Problem) Again() bool {
	return p.Status == http.StatusRequestTimeout || p.Status == http.StatusTooManyRequests || p.Status >= http.StatusInternalServerError
}

// Level is that of the log line about the problem: the client alone learns of its mistakes.
func (p *Problem) Level() slog.Level {
	switch {
	case p.Status >= http.StatusInternalServerError:
		return slog.LevelWarn
	case p.Status == http.StatusUnauthorized, p.Status == http.StatusForbidden, p.Status == http.StatusTooManyRequests:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// Why is the cause for the log, without secrets; "" for none.
func (p *Problem) Why() string {
	if p.Cause == nil {
		return ""
	}
	return operate.Cause(p.Cause)
}

// Of returns the problem that an error is answered with.
func Of(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	if notJSON(err) { // whose faults are not the request's
		return &Problem{Code: "unreadable", Title: "Redis holds something else", Status: http.StatusInternalServerError, Detail: "What Redis holds cannot be read.", Cause: err}
	}
	for i := range table {
		e := &table[i]
		if !e.is(err) {
			continue
		}
		p := &Problem{Code: e.code, Title: e.title, Status: e.status, Detail: e.detail, RetryAfter: e.retryAfter}
		if e.fill != nil {
			e.fill(p, err)
		}
		if p.Detail == "" && e.err != nil {
			p.Detail = sentence(e.err)
		}
		p.Detail = cmp.Or(p.Detail, sentence(err))
		return p
	}
	return &Problem{Code: "internal", Title: "This should not happen", Status: http.StatusInternalServerError, Detail: "This should not happen; the log says where it did.", Cause: err}
}

// Invalid is the answer to a body that holds faults.
func Invalid(faults []Fault) *Problem {
	return &Problem{Code: "invalid", Title: "It is not valid", Status: http.StatusBadRequest, Detail: "The body is not valid.", Errors: faults}
}

// Known returns the error that the problem's code names; nil for one that has no such error. The
// ID is that of the request.
func (p *Problem) Known(id string) error {
	for i := range table {
		e := &table[i]
		switch {
		case e.code != p.Code || p.Code == "":
		case e.make != nil:
			return e.make(p, id)
		default:
			return e.err
		}
	}
	return nil
}

// Faults returns the faults of one notification. It cuts the notification's place off the pointers.
func Faults(all []Fault, at string) push.Faults {
	var f push.Faults
	for _, one := range all {
		f = append(f, push.Fault{Field: strings.TrimPrefix(one.Pointer, at), Problem: one.Detail})
	}
	return f
}

// At are the faults of a value at a pointer in the body.
func At(at string, of push.Faults) []Fault {
	all := make([]Fault, len(of))
	for i, f := range of {
		all[i] = Fault{at + f.Field, f.Problem}
	}
	return all
}

// sentence is the error's text, with a capital and a full stop, unless it asks.
func sentence(err error) string {
	text := err.Error()
	text = strings.ToUpper(text[:1]) + text[1:]
	if text[len(text)-1] == '?' {
		return text
	}
	return text + "."
}

// away describes the trouble of Redis.
func away(err error) string {
	if trouble := redisreply.Of(err); trouble != redisreply.None {
		return "Redis " + trouble.Text() + "."
	}
	if redisreply.Forbidden(err) {
		return "Redis refuses a command: give its user the rights."
	}
	return "Redis does not answer as it should."
}

// notJSON reports whether the error is about a value that does not decode.
func notJSON(err error) bool {
	return errors.As(err, new(*json.SyntaxError)) || errors.As(err, new(*json.UnmarshalTypeError)) || errors.As(err, new(*store.MalformedError))
}
