package apiclient

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/pushpace/pushpace/internal/api/problems"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/push"
)

// Queued calls f with each selected notification that waits, in no order, with some perhaps
// twice, until f returns false. Its error then joins a *store.UnreachableError if it skipped
// shards that do not answer, and inspect.ErrCausesUnread if causes could not be read.
func (c *Client) Queued(ctx context.Context, s inspect.Selection, f func(inspect.Queued) bool) error {
	query := url.Values{}
	for name, value := range map[string]string{"app": s.App, "user": s.User, "category": s.Category, "collapse_key": s.CollapseKey, "for": string(s.For)} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if s.Mutable {
		query.Set("mutable", "true")
	}
	var past []int
	var causes error
	for {
		var page inspect.Page
		if err := c.call(ctx, http.MethodGet, "/v1/waiting?"+query.Encode(), nil, &page); err != nil {
			return err
		}
		if past = append(past, page.Unread...); page.CausesUnread {
			causes = inspect.ErrCausesUnread
		}
		more := true
		for i := 0; more && i < len(page.Waiting); i++ {
			more = f(page.Waiting[i])
		}
		if !more || page.Next == "" {
			return errors.Join(unread(past), causes)
		}
		query.Set("cursor", page.Next)
	}
}

// CancelEach cancels notifications, and returns for each nil or an error of
// control.Control.Cancel.
func (c *Client) CancelEach(ctx context.Context, refs []push.Ref) []error {
	return c.each(ctx, "/v1/cancellations", refs)
}

// RequeueEach requeues dead letters, and returns each result.
func (c *Client) RequeueEach(ctx context.Context, refs []push.Ref) []error {
	return c.each(ctx, "/v1/requeues", refs)
}

// PurgeEach deletes dead letters, and returns each result.
func (c *Client) PurgeEach(ctx context.Context, refs []push.Ref) []error {
	return c.each(ctx, "/v1/purges", refs)
}

func (c *Client) each(ctx context.Context, path string, refs []push.Ref) []error {
	errs := make([]error, 0, len(refs))
	for some := range slices.Chunk(refs, operate.MostIDs) {
		errs = append(errs, c.eachOf(ctx, path, some)...)
	}
	return errs
}

// eachOf is each in one request, or in several if one is too large for the API.
func (c *Client) eachOf(ctx context.Context, path string, refs []push.Ref) []error {
	var answer struct {
		Results []struct {
			Outcome operate.Outcome   `json:"outcome"`
			Code    string            `json:"code"`
			Detail  string            `json:"detail"`
			Choices []problems.Choice `json:"choices"`
		} `json:"results"`
	}
	err := c.call(ctx, http.MethodPost, path, map[string][]push.Ref{"ids": refs}, &answer)
	if half := len(refs) / 2; half > 0 && is(err, http.StatusRequestEntityTooLarge) {
		return append(c.eachOf(ctx, path, refs[:half]), c.eachOf(ctx, path, refs[half:])...)
	}
	errs := make([]error, len(refs))
	for i := range refs {
		switch {
		case err != nil:
			errs[i] = err
			continue
		case i >= len(answer.Results):
			errs[i] = c.strange(http.StatusOK)
			continue
		}
		one := answer.Results[i]
		switch one.Outcome {
		case operate.Done:
		case operate.Failed:
			errs[i] = c.failedOne(http.StatusServiceUnavailable, one.Detail, nil)
		default:
			p := problems.Problem{Code: one.Code, Choices: one.Choices}
			if errs[i] = p.Known(refs[i].ID); operate.OutcomeOf(errs[i]) != one.Outcome {
				errs[i] = c.strange(http.StatusOK)
			}
		}
	}
	return errs
}
