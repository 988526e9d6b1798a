package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/pushpace/pushpace/internal/base/strictjson"
	"github.com/pushpace/pushpace/internal/operate"
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
	if err := strictjson.Parse(c.body, &w); err != nil {
		return nil, err
	}
	if len(w.IDs) == 0 || len(w.IDs) > operate.MostIDs {
		return nil, invalid([]fault{{"/ids", fmt.Sprintf("must hold 1 to %d IDs", operate.MostIDs)}})
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
	ID      string          `json:"id"`
	Outcome operate.Outcome `json:"outcome"`
	Detail  string          `json:"detail,omitempty"` // why it failed
}

// each answers what became of each of the IDs.
func each(ids []string, errs []error) reply {
	answer := struct {
		Results []done `json:"results"`
	}{make([]done, len(ids))}
	for i, err := range errs {
		one := done{ID: ids[i], Outcome: operate.OutcomeOf(err)}
		if one.Outcome == operate.Failed {
			one.Detail = problemOf(err).Detail
		}
		answer.Results[i] = one
	}
	return reply{http.StatusOK, answer}
}

// cancelEach ends notifications that wait.
func (a *API) cancelEach(ctx context.Context, c *call) (reply, error) {
	ids, err := readIDs(c, push.ValidID)
	if err != nil {
		return reply{}, err
	}
	return each(ids, c.as.CancelEach(ctx, ids)), nil
}

// requeueEach has dead letters' notifications sent again.
func (a *API) requeueEach(ctx context.Context, c *call) (reply, error) {
	ids, err := readIDs(c, isLetterID)
	if err != nil {
		return reply{}, err
	}
	return each(ids, c.as.RequeueEach(ctx, ids)), nil
}

// purgeEach deletes dead letters.
func (a *API) purgeEach(ctx context.Context, c *call) (reply, error) {
	ids, err := readIDs(c, isLetterID)
	if err != nil {
		return reply{}, err
	}
	return each(ids, c.as.PurgeEach(ctx, ids)), nil
}

func isLetterID(id string) bool { return id != "" && len(id) <= maxLetterID }
