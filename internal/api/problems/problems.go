// Package problems has one table of the errors that operators and producers see, each with code,
// status, title and detail. The API answers from the table, its client turns a code back into the
// error, and the console renders pages from the table.
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

// A Problem is an error in an answer. Source: RFC 9457.
type Problem struct {
	// Code names the error, from a closed set; "" if only the request is wrong.
	Code   string `json:"code,omitempty"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Errors are all faults of the request's body.
	Errors []Fault `json:"errors,omitempty"`
	// Apps are the apps to choose from.
	Apps []string `json:"apps,omitempty"`
	// Choices are the owners of the notifications, or dead letters, with the ID.
	Choices []Choice `json:"choices,omitempty"`
	// Carries is the number of other notifications that the notification's push reports.
	Carries int `json:"carries,omitempty"`
	// State is the notification's final state.
	State push.State `json:"state,omitempty"`
	// ID is the notification's ID if it is unknown whether the notification was accepted.
	ID string `json:"id,omitempty"`
	// Results are a batch's results.
	Results []Result `json:"results,omitempty"`

	// RetryAfter is the wait before the same request may succeed; 0 if unknown.
	RetryAfter time.Duration `json:"-"`
	// Host is the host of the API that answered; "" for an API in this process.
	Host string `json:"-"`
	// Cause is for the log; nil if the problem's text suffices.
	Cause error `json:"-"`
}

// A Fault is one error of a request, at a JSON pointer.
type Fault struct {
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

// A Choice is the owner of one of several notifications with the same ID.
type Choice struct {
	App  string `json:"app"`
	User string `json:"user"`
}

// A Result is the answer to one notification of a batch, with the status that the notification
// would have had alone.
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
		text += ": give the API's token by --token-file or PUSHPACE_API_TOKEN"
	}
	return text
}

// Again reports whether the same request may succeed later.
func (p *Problem) Again() bool {
	return p.Status == http.StatusRequestTimeout || p.Status == http.StatusTooManyRequests || p.Status >= http.StatusInternalServerError
}

// Level returns the level of the problem's log line: debug for a mistake of the client alone.
func (p *Problem) Level() slog.Level {
	switch {
	case p.Status >= http.StatusInternalServerError:
		return slog.LevelWarn
	case p.Status == http.StatusUnauthorized, p.Status == http.StatusForbidden, p.Status == http.StatusTooManyRequests:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// Why returns the cause for the log, without secrets; "" without a cause.
func (p *Problem) Why() string {
	if p.Cause == nil {
		return ""
	}
	return operate.Cause(p.Cause)
}

// Of returns the problem that answers an error.
func Of(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	if notJSON(err) { // it may hold push.Faults, which are not the request's
		return &Problem{Code: "unreadable", Title: "Redis holds unreadable data", Status: http.StatusInternalServerError, Detail: "What Redis holds cannot be read.", Cause: err}
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

// Invalid returns the answer to a body with faults.
func Invalid(faults []Fault) *Problem {
	return &Problem{Code: "invalid", Title: "The body is not valid", Status: http.StatusBadRequest, Detail: "The body is not valid.", Errors: faults}
}

// Known returns the error that the problem's code names, or nil if there is none. The ID is the
// request's.
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

// Faults returns the faults of one notification. It cuts the prefix at off the pointers.
func Faults(all []Fault, at string) push.Faults {
	var f push.Faults
	for _, one := range all {
		f = append(f, push.Fault{Field: strings.TrimPrefix(one.Pointer, at), Problem: one.Detail})
	}
	return f
}

// At returns the faults of a value, which is at a pointer in the body.
func At(at string, of push.Faults) []Fault {
	all := make([]Fault, len(of))
	for i, f := range of {
		all[i] = Fault{at + f.Field, f.Problem}
	}
	return all
}

// sentence returns the error's text with a capital, and a full stop unless it is a question.
func sentence(err error) string {
	text := err.Error()
	text = strings.ToUpper(text[:1]) + text[1:]
	if text[len(text)-1] == '?' {
		return text
	}
	return text + "."
}

// away describes the error state of Redis.
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
