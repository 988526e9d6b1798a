package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/pushpace/pushpace/internal/api/problems"
	"github.com/pushpace/pushpace/internal/base/fielderrors"
	"github.com/pushpace/pushpace/internal/base/strictjson"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/push"
)

// maxBatch bounds the notifications of one request.
const maxBatch = 1000

// A batch is the answer to an array of notifications, in its order.
type batch struct {
	Results []result `json:"results"`
}

// enqueueBatch accepts an array of notifications, if there is room for them.
func (a *API) enqueueBatch(ctx context.Context, c *call) (reply, error) {
	if a.backlog.full(ctx) {
		return reply{}, errFull
	}
	return a.enqueueAll(ctx, c)
}

// enqueueAll accepts an array of notifications.
func (a *API) enqueueAll(ctx context.Context, c *call) (reply, error) {
	items, err := parseAll(c.body)
	if err := a.charge(ctx, c, max(1, len(items))); err != nil {
		return reply{}, err
	}
	if err != nil {
		return reply{}, err
	}
	if c.Header[idempotencyHeader] != nil {
		return reply{}, errKeyOfMany
	}
	results := make([]result, len(items))
	var cause error
	for i, r := range c.as.EnqueueAll(ctx, items) {
		if results[i] = resultOf(i, r); results[i].Status == http.StatusServiceUnavailable {
			cause = r.Err
		}
	}
	return a.replyTo(results, cause)
}

// parseAll reads an array of 1 to maxBatch notifications, each as push.Parse does. Its error, of
// type fielderrors.Faults, is about the array.
func parseAll(data []byte) ([]operate.Parsed, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	if start, err := d.Token(); err != nil || start != json.Delim('[') {
		return nil, misfitArray(data)
	}
	var all []operate.Parsed
	for d.More() && len(all) < maxBatch {
		var item json.RawMessage
		if d.Decode(&item) != nil {
			return nil, misfitArray(data)
		}
		n, err := push.Parse(item)
		all = append(all, operate.Parsed{Notification: n, Err: err})
	}
	if end, err := d.Token(); len(all) == 0 || err != nil || end != json.Delim(']') {
		return nil, misfitArray(data)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, misfitArray(data)
	}
	return all, nil
}

// misfitArray explains why data is no array of 1 to maxBatch items.
func misfitArray(data []byte) error {
	var items []json.RawMessage
	problem := "is empty: at least one notification is needed"
	switch err := json.Unmarshal(data, &items); {
	case errors.As(err, new(*json.UnmarshalTypeError)):
		problem = "must be an array"
	case err != nil:
		return fielderrors.New("", "%s", strictjson.NotJSON(err))
	case len(items) > maxBatch:
		problem = fmt.Sprintf("has %d notifications, at most %d are taken", len(items), maxBatch)
	}
	return fielderrors.New("", "%s", problem)
}

func resultOf(i int, r operate.Result) result {
	at := "/" + strconv.Itoa(i)
	if r.Err != nil {
		p := problems.Of(r.Err)
		switch p.Status {
		case http.StatusBadRequest:
			if len(p.Errors) == 0 {
				return result{ID: r.ID, Status: p.Status, Detail: p.Detail}
			}
			return result{Status: p.Status, Errors: problems.At(at, problems.Faults(p.Errors, ""))}
		case http.StatusForbidden:
			return result{Status: p.Status, Errors: []problems.Fault{{Pointer: at + "/app", Detail: r.Err.Error()}}}
		case http.StatusConflict:
			return result{ID: r.ID, Status: p.Status}
		}
		return result{ID: r.ID, Status: http.StatusServiceUnavailable, Detail: p.Detail}
	}
	status := http.StatusAccepted
	if r.Known {
		status = http.StatusOK
	}
	return result{ID: r.ID, Status: status, Warnings: r.Warnings}
}

// replyTo answers a batch: 202 if any notification was accepted, else 503 if any could not be,
// else 200 if any was known, else 400 if any is not valid, else 403 if the token may not use
// the app of any, else 409.
func (a *API) replyTo(results []result, cause error) (reply, error) {
	count := map[int]int{}
	var faults []problems.Fault
	for _, r := range results {
		count[r.Status]++
		faults = append(faults, r.Errors...)
	}
	switch {
	case count[http.StatusAccepted] > 0:
		a.backlog.took(count[http.StatusAccepted])
		return reply{http.StatusAccepted, batch{results}}, nil
	case count[http.StatusServiceUnavailable] > 0:
		p := problems.Of(cause)
		p.Results = results
		return reply{}, p
	case count[http.StatusOK] > 0:
		return reply{http.StatusOK, batch{results}}, nil
	case count[http.StatusBadRequest]+count[http.StatusForbidden] == 0:
		p := problems.Of(push.ErrConflict)
		p.Results = results
		return reply{}, p
	}
	p := problems.Invalid(faults[:min(len(faults), maxBatch)])
	if count[http.StatusBadRequest] == 0 {
		p.Status = http.StatusForbidden
	}
	p.Results = results
	return reply{}, p
}
