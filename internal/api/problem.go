package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/trail"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/pause"
)

// A problem is an error as it is answered: application/problem+json.
// Source: RFC 9457.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Errors are all that is wrong with the request's body.
	Errors []fault `json:"errors,omitempty"`
	// Apps are those that the request has to choose from.
	Apps []string `json:"apps,omitempty"`
	// Choices are whose notifications, or dead letters, have the ID.
	Choices []choice `json:"choices,omitempty"`
	// Carries is how many others the push of the one that was to be cancelled is to tell of.
	Carries int `json:"carries,omitempty"`
	// ID is the notification's, generated if it had none, when it is not known
	// whether it was taken.
	ID string `json:"id,omitempty"`
	// Results are those of a batch.
	Results []result `json:"results,omitempty"`

	retryAfter time.Duration
	cause      error
}

// A choice is whose one of several notifications with the same ID is.
type choice struct {
	App  string `json:"app"`
	User string `json:"user"`
}

// choose is the answer to an ID that is several users'.
func choose(of *push.AmbiguousError) *problem {
	p := &problem{Status: http.StatusConflict, Detail: "Several users have this ID: say whose is meant by ?app=…&user=…. Nothing was changed."}
	for _, ref := range of.Choices {
		p.Choices = append(p.Choices, choice{ref.App, ref.User})
	}
	return p
}

// A fault is one thing that is wrong, and a JSON pointer to it.
type fault struct {
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

// Error implements error.
func (p *problem) Error() string { return http.StatusText(p.Status) + ": " + p.Detail }

// faultsAt are faults of what stands at a pointer in the body.
func faultsAt(at string, of push.Faults) []fault {
	faults := make([]fault, len(of))
	for i, f := range of {
		faults[i] = fault{at + f.Field, f.Problem}
	}
	return faults
}

// invalid is the answer to a body that holds faults.
func invalid(faults []fault) *problem {
	return &problem{Status: http.StatusBadRequest, Detail: "The body is not valid.", Errors: faults}
}

// comeAgain is after how long it is worth to come again while Redis is away.
const comeAgain = time.Second

// problemOf says what to answer to an error.
func problemOf(err error) *problem {
	var (
		p        *problem
		faults   push.Faults
		tooLarge *http.MaxBytesError
		others   *operate.OthersError
		role     *operate.RoleError
		unknown  *operate.UnknownError
		ended    *store.EndedError
		carries  *push.CarriesError
		several  *push.AmbiguousError
	)
	switch {
	case errors.As(err, &p):
		return p
	case isJSON(err): // whose faults are not the request's
		return &problem{Status: http.StatusInternalServerError, Detail: "What Redis holds cannot be read.", cause: err}
	case errors.As(err, &faults):
		return invalid(faultsAt("", faults))
	case errors.As(err, &tooLarge):
		return &problem{Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("The body is larger than %d bytes: split the batch.", tooLarge.Limit)}
	case errors.As(err, &others), errors.As(err, &role):
		return &problem{Status: http.StatusForbidden, Detail: sentence(err)}
	case errors.As(err, &unknown):
		return &problem{Status: http.StatusBadRequest, Detail: "The " + unknown.Error() + ".", Apps: unknown.Choices}
	case errors.Is(err, operate.ErrNoOverride), errors.Is(err, operate.ErrNoPause):
		return &problem{Status: http.StatusNotFound, Detail: sentence(err)}
	case errors.Is(err, limits.ErrTooManyOverrides):
		return &problem{Status: http.StatusConflict, Detail: "There are too many overrides: remove some, or change the configuration."}
	case errors.Is(err, pause.ErrOver):
		return invalid([]fault{{"/until", "has passed"}})
	case errors.Is(err, pause.ErrTooMany):
		return &problem{Status: http.StatusConflict, Detail: "There are too many pauses: end some of them first."}
	case errors.Is(err, push.ErrUnknownID):
		return &problem{Status: http.StatusNotFound, Detail: "No notification has this ID, or it was forgotten since."}
	case errors.As(err, &several):
		return choose(several)
	case errors.Is(err, push.ErrConflict):
		return &problem{Status: http.StatusConflict, Detail: "The ID is another notification's: it was used with another user or other content. Nothing was queued."}
	case errors.Is(err, store.ErrNoLetter):
		return &problem{Status: http.StatusNotFound, Detail: "No dead letter has this ID."}
	case errors.Is(err, store.ErrCursor), errors.Is(err, limits.ErrCursor):
		return badQuery("cursor", "the next of an earlier answer")
	case errors.Is(err, trail.ErrCursor):
		return badQuery("before", "the cursor of an action")
	case errors.As(err, &carries):
		return &problem{Status: http.StatusConflict, Detail: sentence(carries), Carries: carries.Others}
	case errors.As(err, &ended):
		return &problem{Status: http.StatusConflict, Detail: sentence(ended)}
	case errors.Is(err, push.ErrEnded):
		return &problem{Status: http.StatusConflict, Detail: "The notification has ended."}
	case errors.Is(err, push.ErrUnderWay):
		return &problem{Status: http.StatusConflict, Detail: "The notification is being sent right now; look again in a moment."}
	case errors.Is(err, push.ErrStillThere):
		return &problem{Status: http.StatusServiceUnavailable, Detail: "A worker has not put down the job of the last attempt.", retryAfter: comeAgain}
	case errors.Is(err, operate.ErrPreviewBusy):
		return &problem{Status: http.StatusServiceUnavailable, Detail: "Another preview looks at all who wait: ask again in a moment.", retryAfter: operate.PreviewBudget}
	case errors.Is(err, context.Canceled):
		return &problem{Status: statusGone, cause: err}
	case redisreply.OfRedis(err), errors.Is(err, throttle.ErrUnavailable), errors.Is(err, pipeline.ErrClosed):
		return &problem{Status: http.StatusServiceUnavailable, Detail: away(err), retryAfter: comeAgain, cause: err}
	}
	return &problem{Status: http.StatusInternalServerError, Detail: "This should not happen; the log says where it did.", cause: err}
}

// sentence is the error's text, with a capital and a full stop.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// Explain returns what a status and a sentence say of an error, to a person elsewhere,
// and for the log its cause; "" for none.
func Explain(err error) (status int, detail, why string) {
	p := problemOf(err)
	if p.cause != nil {
		why = operate.Cause(p.cause)
	}
	return p.Status, p.Detail, why
}

// away says what is wrong with Redis.
func away(err error) string {
	if trouble := redisreply.Of(err); trouble != redisreply.None {
		return "Redis " + trouble.Says() + "."
	}
	if redisreply.Forbidden(err) {
		return "Redis refuses a command: give its user the rights."
	}
	return "Redis does not answer as it should."
}

// statusGone stands in the log for a client that did not wait for its answer.
const statusGone = 499

// isJSON reports whether the error is about something that does not decode.
func isJSON(err error) bool {
	var (
		syntax    *json.SyntaxError
		misfit    *json.UnmarshalTypeError
		malformed *store.MalformedError
	)
	return errors.As(err, &syntax) || errors.As(err, &misfit) || errors.As(err, &malformed)
}

// fail answers a request that failed, and tells the log. What the log says holds
// nothing that the client has chosen, but for the method and the address.
func (a *API) fail(w http.ResponseWriter, r *http.Request, pattern, who string, err error) {
	p := *problemOf(err)
	level := slog.LevelDebug // it is the client who is to know
	switch {
	case p.Status >= http.StatusInternalServerError:
		level = slog.LevelWarn
	case p.Status == http.StatusUnauthorized, p.Status == http.StatusForbidden, p.Status == http.StatusTooManyRequests:
		level = slog.LevelInfo
	}
	more := []slog.Attr{slog.String("remote", r.RemoteAddr)}
	if p.cause != nil {
		more = append(more, slog.String("cause", operate.Cause(p.cause)))
	}
	a.repeats.Tell(r.Context(), a.log, level, "a request failed", []slog.Attr{
		slog.String("method", method(r)), slog.String("route", pattern), slog.Int("status", p.Status), slog.String("token", who),
	}, more...)
	if p.Status == statusGone {
		return
	}
	if a.o.Local != nil && p.cause != nil { // who asks has no log to look into
		p.Detail = strings.TrimSuffix(p.Detail, ".") + ": " + operate.Cause(p.cause)
	}
	p.Title = http.StatusText(p.Status)
	h := w.Header()
	switch p.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="pushpace"`)
	case http.StatusRequestTimeout, http.StatusRequestEntityTooLarge:
		h.Set("Connection", "close")
	}
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((p.retryAfter+time.Second-1)/time.Second)))
	}
	text, err := json.Marshal(&p)
	if err != nil { // it holds texts and numbers
		panic(err)
	}
	writeJSON(w, p.Status, "application/problem+json", text)
	if p.Status == http.StatusRequestEntityTooLarge {
		discard(w, r)
	}
}

// method is the request's method, if it is one of HTTP's own.
func method(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodTrace, http.MethodConnect:
		return r.Method
	}
	return "other"
}
