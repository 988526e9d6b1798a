package apiclient

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
)

// Queued calls f with each selected notification that waits, in no order, perhaps
// with one twice, until f answers false.
func (c *Client) Queued(ctx context.Context, s control.Selection, f func(control.Queued) bool) error {
	query := url.Values{}
	for name, value := range map[string]string{"app": s.App, "user": s.User, "category": s.Category, "collapse_key": s.CollapseKey, "for": string(s.For)} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for {
		var page struct {
			Waiting []control.Queued `json:"waiting"`
			Next    string           `json:"next"`
		}
		if err := c.call(ctx, http.MethodGet, "/v1/waiting?"+query.Encode(), nil, &page); err != nil {
			return err
		}
		for _, q := range page.Waiting {
			if !f(q) {
				return nil
			}
		}
		if page.Next == "" {
			return nil
		}
		query.Set("cursor", page.Next)
	}
}

// CancelEach cancels notifications, and returns what became of each: nil, or what
// control.Control's Cancel answers.
func (c *Client) CancelEach(ctx context.Context, ids []string) []error {
	return c.each(ctx, "/v1/cancellations", ids, push.ErrUnknownID, push.ErrUnderWay)
}

// RequeueEach requeues dead letters, and returns what became of each.
func (c *Client) RequeueEach(ctx context.Context, ids []string) []error {
	return c.each(ctx, "/v1/requeues", ids, ledger.ErrNoLetter, push.ErrStillThere)
}

// PurgeEach deletes dead letters, and returns what became of each.
func (c *Client) PurgeEach(ctx context.Context, ids []string) []error {
	return c.each(ctx, "/v1/purges", ids, ledger.ErrNoLetter, push.ErrStillThere)
}

func (c *Client) each(ctx context.Context, path string, ids []string, unknown, underWay error) []error {
	errs := make([]error, 0, len(ids))
	for some := range slices.Chunk(ids, operate.MostIDs) {
		var answer struct {
			Results []struct {
				Outcome operate.Outcome `json:"outcome"`
				Detail  string          `json:"detail"`
			} `json:"results"`
		}
		err := c.call(ctx, http.MethodPost, path, map[string][]string{"ids": some}, &answer)
		for i := range some {
			switch {
			case err != nil:
				errs = append(errs, err)
				continue
			case i >= len(answer.Results):
				errs = append(errs, c.strange(http.StatusOK))
				continue
			}
			failed := c.failedOne(http.StatusServiceUnavailable, answer.Results[i].Detail, nil)
			err, known := map[operate.Outcome]error{operate.Done: nil, operate.Unknown: unknown, operate.Ended: push.ErrEnded, operate.UnderWay: underWay, operate.Failed: failed}[answer.Results[i].Outcome]
			if !known {
				err = c.strange(http.StatusOK)
			}
			errs = append(errs, err)
		}
	}
	return errs
}
