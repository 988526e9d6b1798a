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

// ComeAgain is the wait that is asked for while Redis is away.
const ComeAgain = time.Second

// Gone is the status in the log of a client that did not wait for its answer.
const Gone = 499

// An entry is an error and its answer.
type entry struct {
	// code names it; "" for one that a client needs no name for.
	code string
	// err is the error's value, and of its type; one of the two.
	err error
	of  func(error) bool
	// status, title and detail are answered; "" as the detail for the error's own text.
	status        int
	title, detail string
	retryAfter    time.Duration
	// fill copies the error's data, and make restores the error.
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

// as returns the error of the type that an error is.
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

// table has the errors in the order in which they are looked for.
var table = []entry{
	{code: "invalid", of: a[push.Faults], status: badRequest, fill: func(p *Problem, err error) { *p = *Invalid(At("", as[push.Faults](err))) },
		make: func(*Problem, string) error { return nil }}, // the problem has the faults
	{of: a[*http.MaxBytesError], status: tooLarge, title: "It is too large", fill: func(p *Problem, err error) {
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
	{code: "overtaken", err: limits.ErrConflict, status: conflict, title: "It has changed since", detail: "Another change of these limits came after this one. Nothing was changed: the log says what is there now."},
	{code: "no_change", err: operate.ErrNoChange, status: notFound, title: "There is no such change", detail: "It is none of those that are kept."},
	{code: "no_undo", err: operate.ErrNoUndo, status: conflict, title: "Nothing to undo", detail: "What was there before has ended."},
	{code: "no_loss", err: control.ErrNoLoss, status: notFound, title: "No loss is recorded"},
	{code: "more_lost", err: control.ErrMoreLost, status: conflict, title: "Other data is lost", detail: "Redis has lost other data since: the overview counts it. Nothing was confirmed."},
	{code: "no_pause", err: operate.ErrNoPause, status: notFound, title: "There is no such pause"},
	{code: "too_many_pauses", err: pause.ErrTooMany, status: conflict, title: "Too many pauses", detail: "There are too many pauses: end some of them first."},
	{code: "pause_over", err: pause.ErrOver, status: badRequest, title: "It would be over already", detail: "The end has passed. Nothing was changed.",
		fill: func(p *Problem, _ error) { p.Errors = []Fault{{"/until", "has passed"}} }},
	{code: "unknown_id", err: push.ErrUnknownID, status: notFound, title: "There is no such notification", detail: "No notification has this ID, or it was forgotten since."},
	{code: "ambiguous_id", of: a[*push.AmbiguousError], status: conflict, title: "Several have this ID", detail: "Several users have this ID: say whose is meant by app and user. Nothing was changed.",
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
	{code: "carries_others", of: a[*push.CarriesError], status: conflict, title: "It carries others",
		fill: func(p *Problem, err error) {
			carries := as[*push.CarriesError](err)
			p.Carries, p.Detail = carries.Others, sentence(carries)
		},
		make: func(p *Problem, _ string) error { return &push.CarriesError{Others: p.Carries} }},
	{code: "ended", err: push.ErrEnded, status: conflict, title: "It has ended",
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
	{code: "under_way", err: push.ErrUnderWay, status: conflict, title: "It is being sent", detail: "The notification is being sent right now; look again in a moment."},
	{code: "still_there", err: push.ErrStillThere, status: unavailable, title: "It is still in a worker", detail: "A worker has not put down the job of the last attempt.", retryAfter: ComeAgain},
	{code: "preview_busy", err: operate.ErrPreviewBusy, status: unavailable, title: "Too much at once", detail: "Another preview looks at all who wait: ask again in a moment.", retryAfter: operate.PreviewBudget},
	{err: context.Canceled, status: Gone, fill: func(p *Problem, err error) { p.Cause = err }},
	{code: "redis", of: ofRedis, status: unavailable, title: "Redis is in trouble", retryAfter: ComeAgain,
		fill: func(p *Problem, err error) { p.Detail, p.Cause = away(err), err },
		make: func(*Problem, string) error { return nil }}, // the problem says what is wrong
}

const (
	badAddress = "The address is not well formed"
	badCursor  = "The query's cursor must be the next of an earlier answer."
)

func ofRedis(err error) bool {
	return redisreply.OfRedis(err) || errors.Is(err, throttle.ErrUnavailable) || errors.Is(err, pipeline.ErrClosed)
}

// Several is the error about an ID of several users.
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
