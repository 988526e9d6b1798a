package problems

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/auditlog"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

// ComeAgain is the Retry-After while Redis is unreachable.
const ComeAgain = time.Second

// Gone is the status in the log of a client that did not wait for its answer.
const Gone = 499

// An entry is an error and its answer.
type entry struct {
	// code names the error; "" if no client needs a name for it.
	code string
	// err is the error's value; for an error without a fixed value, of recognizes the type.
	err error
	of  func(error) bool
	// status, title and detail are the answer; an empty detail means the error's own text.
	status        int
	title, detail string
	retryAfter    time.Duration
	// fill copies the error's data into the problem, and make restores the error from it.
	fill func(*Problem, error)
	make func(p *Problem, id string) error
}

func (e *entry) is(err error) bool {
	if e.of != nil {
		return e.of(err)
	}
	return errors.Is(err, e.err)
}

// a reports whether an error is of the type.
func a[T error](err error) bool { return errors.As(err, new(T)) }

// as returns the error of the type T in the error's chain.
func as[T error](err error) (of T) {
	errors.As(err, &of)
	return of
}

const (
	badRequest  = http.StatusBadRequest
	forbidden   = http.StatusForbidden
	notFound    = http.StatusNotFound
	conflict    = http.StatusConflict
	tooLarge    = http.StatusRequestEntityTooLarge
	unavailable = http.StatusServiceUnavailable
)

// table is searched in this order: the first match is the answer.
var table = []entry{
	{code: "invalid", of: a[push.Faults], status: badRequest, fill: func(p *Problem, err error) { *p = *Invalid(At("", as[push.Faults](err))) },
		make: func(*Problem, string) error { return nil }}, // the problem has the faults
	{of: a[*http.MaxBytesError], status: tooLarge, title: "The body is too large", fill: func(p *Problem, err error) {
		p.Detail = fmt.Sprintf("The body is larger than %d bytes: split the batch.", as[*http.MaxBytesError](err).Limit)
	}},
	{code: "other_apps", of: a[*operate.OthersError], status: forbidden, title: "Not allowed"},
	{code: "role", of: a[*operate.RoleError], status: forbidden, title: "Not allowed"},
	{code: "unknown_name", of: a[*operate.UnknownError], status: badRequest, title: "A name is not known", fill: func(p *Problem, err error) {
		unknown := as[*operate.UnknownError](err)
		if p.Detail, p.Apps = "The "+unknown.Error(), unknown.Choices; unknown.Kind != "id" {
			p.Title = "There is no such " + unknown.Kind
		}
		if p.Detail[len(p.Detail)-1] != '?' {
			p.Detail += "."
		}
	}},
	{code: "no_override", err: operate.ErrNoOverride, status: notFound, title: "There is no such override"},
	{code: "too_many_overrides", err: limits.ErrTooManyOverrides, status: conflict, title: "Too many overrides", detail: "There are too many overrides: remove some, or change the configuration."},
	{code: "overtaken", err: limits.ErrConflict, status: conflict, title: "The limits have changed since", detail: "These limits were changed again after this change. Nothing was changed: the log shows the limits in force."},
	{code: "no_change", err: operate.ErrNoChange, status: notFound, title: "There is no such change", detail: "The log has no such change, or does not hold it any more."},
	{code: "no_undo", err: operate.ErrNoUndo, status: conflict, title: "Nothing to undo", detail: "The previous override has expired."},
	{code: "no_loss", err: control.ErrNoLoss, status: notFound, title: "No loss is recorded"},
	{code: "more_lost", err: control.ErrMoreLost, status: conflict, title: "Other data is lost", detail: "Redis has lost other data since: the overview counts it. Nothing was confirmed."},
	{code: "no_pause", err: operate.ErrNoPause, status: notFound, title: "There is no such pause"},
	{code: "too_many_pauses", err: pause.ErrTooMany, status: conflict, title: "Too many pauses", detail: "There are too many pauses: end some of them first."},
	{code: "pause_over", err: pause.ErrOver, status: badRequest, title: "The pause would be over already", detail: "The end has passed. Nothing was changed.",
		fill: func(p *Problem, _ error) { p.Errors = []Fault{{"/until", "has passed"}} }},
	{code: "unknown_id", err: push.ErrUnknownID, status: notFound, title: "There is no such notification", detail: "No notification has this ID, or its record has expired."},
	{code: "ambiguous_id", of: a[*push.AmbiguousError], status: conflict, title: "Several have this ID", detail: "Several users have this ID: name the app and the user. Nothing was changed.",
		fill: func(p *Problem, err error) {
			for _, ref := range as[*push.AmbiguousError](err).Choices {
				p.Choices = append(p.Choices, Choice{ref.App, ref.User})
			}
		},
		make: func(p *Problem, id string) error { return Several(id, p.Choices) }},
	{code: "id_taken", err: push.ErrConflict, status: conflict, title: "The ID is taken", detail: "The ID is another notification's: it was used with another user or other content. Nothing was queued."},
	{code: "no_dead_letter", err: store.ErrNoLetter, status: notFound, title: "There is no such dead letter", detail: "No dead letter has this ID."},
	{err: store.ErrCursor, status: badRequest, title: badAddress, detail: badCursor},
	{err: limits.ErrCursor, status: badRequest, title: badAddress, detail: badCursor},
	{err: auditlog.ErrCursor, status: badRequest, title: badAddress, detail: "The query's before must be the cursor of an action."},
	{code: "carries_others", of: a[*push.CarriesError], status: conflict, title: "The notification carries others",
		fill: func(p *Problem, err error) {
			carries := as[*push.CarriesError](err)
			p.Carries, p.Detail = carries.Others, sentence(carries)
		},
		make: func(p *Problem, _ string) error { return &push.CarriesError{Others: p.Carries} }},
	{code: "ended", err: push.ErrEnded, status: conflict, title: "The notification has ended",
		fill: func(p *Problem, err error) {
			if ended := as[*store.EndedError](err); ended != nil {
				p.State, p.Detail = ended.State, sentence(ended)
				return
			}
			p.Detail = "The notification has ended."
		},
		make: func(p *Problem, _ string) error {
			if p.State == "" {
				return push.ErrEnded
			}
			return &store.EndedError{State: p.State}
		}},
	{code: "under_way", err: push.ErrUnderWay, status: conflict, title: "The notification is being sent", detail: "The notification is being sent right now; look again in a moment."},
	{code: "still_there", err: push.ErrStillThere, status: unavailable, title: "A worker still has the job", detail: "A worker still has the job of the last attempt.", retryAfter: ComeAgain},
	{code: "preview_busy", err: operate.ErrPreviewBusy, status: unavailable, title: "Too much at once", detail: "Another preview is reading all users that wait: try again in a moment.", retryAfter: operate.PreviewBudget},
	{err: context.Canceled, status: Gone, fill: func(p *Problem, err error) { p.Cause = err }},
	{code: "redis", of: ofRedis, status: unavailable, title: "Redis is in trouble", retryAfter: ComeAgain,
		fill: func(p *Problem, err error) { p.Detail, p.Cause = away(err), err },
		make: func(*Problem, string) error { return nil }}, // the problem says what is wrong
}

const (
	badAddress = "The address is not well formed"
	badCursor  = "The query's cursor must be the value of next in an earlier answer."
)

func ofRedis(err error) bool {
	return redisreply.OfRedis(err) || errors.Is(err, throttle.ErrUnavailable) || errors.Is(err, pipeline.ErrClosed)
}

// Several returns the error about an ID that several users have.
func Several(id string, choices []Choice) error {
	all := make([]push.Ref, len(choices))
	for i, c := range choices {
		all[i] = push.Ref{ID: id, App: c.App, User: c.User}
	}
	return &push.AmbiguousError{Choices: all}
}

// Codes returns all codes of problems, sorted.
func Codes() []string {
	all := []string{"internal", "unreadable"}
	for i := range table {
		if code := table[i].code; code != "" {
			all = append(all, code)
		}
	}
	slices.Sort(all)
	return all
}
