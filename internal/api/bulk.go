package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/pushpace/pushpace/internal/several"
	"github.com/pushpace/pushpace/push"
)

// wantedIDs is the body of a request about several.
type wantedIDs struct {
	IDs []string `json:"ids"`
}

// maxLetterID bounds the ID of a dead letter, in bytes. That of a job that was no
// notification is whatever it was put on the queue by.
const maxLetterID = 4096

// readIDs reads IDs each of which can be one.
func readIDs(c *call, valid func(id string) bool) ([]string, error) {
	var w wantedIDs
	if err := push.ParseStrictly(c.body, &w); err != nil {
		return nil, err
	}
	if len(w.IDs) == 0 || len(w.IDs) > several.Most {
		return nil, invalid([]fault{{"/ids", fmt.Sprintf("must hold 1 to %d IDs", several.Most)}})
	}
	for i, id := range w.IDs {
		if !valid(id) {
			return nil, invalid([]fault{{"/ids/" + strconv.Itoa(i), "cannot be an ID"}})
		}
	}
	return w.IDs, nil
}

// A done is what became of one of several.
type done struct {
	ID      string `json:"id"`
	Outcome string `json:"outcome"`
	Detail  string `json:"detail,omitempty"` // why it failed
}

// The outcomes. What failed may be asked for again.
const (
	outcomeDone     = "done"
	outcomeUnknown  = "unknown"
	outcomeEnded    = "ended"
	outcomeUnderWay = "under_way"
	outcomeFailed   = "failed"
)

func outcomeOf(err error) string {
	switch {
	case err == nil:
		return outcomeDone
	case errors.Is(err, push.ErrUnknownID), errors.Is(err, push.ErrNoLetter):
		return outcomeUnknown
	case errors.Is(err, push.ErrEnded):
		return outcomeEnded
	case errors.Is(err, push.ErrUnderWay), errors.Is(err, push.ErrStillThere):
		return outcomeUnderWay
	}
	return outcomeFailed
}

// each answers what became of each of the IDs, and logs how many were done.
func (a *API) each(c *call, what string, ids []string, errs []error) reply {
	answer := struct {
		Results []done `json:"results"`
	}{make([]done, len(ids))}
	n := 0
	var failed error
	for i, err := range errs {
		one := done{ID: ids[i], Outcome: outcomeOf(err)}
		switch one.Outcome {
		case outcomeDone:
			n++
		case outcomeFailed:
			one.Detail, failed = problemOf(err).Detail, err
		}
		answer.Results[i] = one
	}
	attrs := []any{"by", c.who.Name, "remote", c.RemoteAddr, "count", n}
	if failed != nil {
		attrs = append(attrs, "cause", cause(failed))
	}
	a.log.Info(what, attrs...)
	return reply{http.StatusOK, answer}
}

// cancelEach ends notifications that wait.
func (a *API) cancelEach(ctx context.Context, c *call) (reply, error) {
	ids, err := readIDs(c, push.ValidID)
	if err != nil {
		return reply{}, err
	}
	return a.each(c, "notifications are cancelled", ids, several.Each(ctx, ids, func(ctx context.Context, id string) error {
		if err := c.who.Notification(ctx, a.o.Records, id); err != nil {
			return err
		}
		return a.o.Control.Cancel(ctx, id)
	})), nil
}

// requeueEach has dead letters' notifications sent again.
func (a *API) requeueEach(ctx context.Context, c *call) (reply, error) {
	ids, err := readIDs(c, func(id string) bool { return id != "" && len(id) <= maxLetterID })
	if err != nil {
		return reply{}, err
	}
	return a.each(c, "dead letters are requeued", ids, several.Each(ctx, ids, func(ctx context.Context, id string) error {
		if err := c.who.KnowsLetter(ctx, a.o.Records, id); err != nil {
			return err
		}
		return a.o.Producer.Requeue(ctx, id)
	})), nil
}
