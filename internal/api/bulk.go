package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/pushpace/pushpace/internal/api/problems"
	"github.com/pushpace/pushpace/internal/base/strictjson"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/push"
)

// maxLetterID bounds the ID of a dead letter, in bytes. The producer of a malformed job may
// have chosen any ID.
const maxLetterID = 4096

// readRefs reads the body of a bulk request: IDs, each valid, alone or with app and user.
func readRefs(c *call, valid func(id string) bool) ([]push.Ref, error) {
	var body struct {
		IDs []json.RawMessage `json:"ids"`
	}
	if err := strictjson.Parse(c.body, &body); err != nil {
		return nil, err
	}
	if len(body.IDs) == 0 || len(body.IDs) > operate.MostIDs {
		return nil, invalid([]fault{{"/ids", fmt.Sprintf("must hold 1 to %d IDs", operate.MostIDs)}})
	}
	refs := make([]push.Ref, len(body.IDs))
	for i, item := range body.IDs {
		at, ref := "/ids/"+strconv.Itoa(i), &refs[i]
		if json.Unmarshal(item, &ref.ID) != nil {
			var faults push.Faults
			if err := strictjson.Parse(item, ref); errors.As(err, &faults) {
				return nil, problems.Invalid(problems.At(at, faults))
			}
			at += "/id"
		}
		if !valid(ref.ID) {
			return nil, invalid([]fault{{at, "cannot be an ID"}})
		}
		if err := c.as.MayNarrow(ref.App); err != nil {
			return nil, err
		}
	}
	return refs, nil
}

// A done is one result of a bulk request.
type done struct {
	push.Ref                   // as the request has it
	Outcome  operate.Outcome   `json:"outcome"`
	Code     string            `json:"code,omitempty"`    // the problem's
	Detail   string            `json:"detail,omitempty"`  // why it failed
	Choices  []problems.Choice `json:"choices,omitempty"` // if the ID is ambiguous
}

// each returns all results.
func each(refs []push.Ref, errs []error) reply {
	answer := struct {
		Results []done `json:"results"`
	}{make([]done, len(refs))}
	for i, err := range errs {
		one := done{Ref: refs[i], Outcome: operate.OutcomeOf(err)}
		if err != nil {
			p := problems.Of(err)
			one.Code, one.Choices = p.Code, p.Choices
			if one.Outcome == operate.Failed {
				one.Detail = p.Detail
			}
		}
		answer.Results[i] = one
	}
	return reply{http.StatusOK, answer}
}

// cancelEach ends notifications that wait.
func (a *API) cancelEach(ctx context.Context, c *call) (reply, error) {
	refs, err := readRefs(c, push.ValidID)
	if err != nil {
		return reply{}, err
	}
	return each(refs, c.as.CancelEach(ctx, refs)), nil
}

// requeueEach puts dead letters' notifications back on their queues.
func (a *API) requeueEach(ctx context.Context, c *call) (reply, error) {
	refs, err := readRefs(c, isLetterID)
	if err != nil {
		return reply{}, err
	}
	return each(refs, c.as.RequeueEach(ctx, refs)), nil
}

// purgeEach deletes dead letters.
func (a *API) purgeEach(ctx context.Context, c *call) (reply, error) {
	refs, err := readRefs(c, isLetterID)
	if err != nil {
		return reply{}, err
	}
	return each(refs, c.as.PurgeEach(ctx, refs)), nil
}

func isLetterID(id string) bool { return id != "" && len(id) <= maxLetterID }
