package apiclient

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
)

const letters = "/v1/dead-letters"

// pageSize is the number of dead letters that one request asks for.
const pageSize = 500

// Letters calls f with each selected dead letter, without its job, in no order, until f
// returns false. If it skipped shards that do not answer, it then returns a
// *store.UnreachableError.
func (c *Client) Letters(ctx context.Context, s operate.LetterSelection, f func(*store.Letter) bool) error {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	for name, value := range map[string]string{"app": s.App, "category": s.Category, "reason": s.Reason} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if s.Since > 0 {
		query.Set("since", s.Since.String())
	}
	var past []int
	for {
		var page operate.LetterPage
		if err := c.call(ctx, http.MethodGet, letters+"?"+query.Encode(), nil, &page); err != nil {
			return err
		}
		past = append(past, page.Unread...)
		more := true
		for i := 0; more && i < len(page.Letters); i++ {
			more = f(&page.Letters[i])
		}
		if !more || page.Next == "" {
			return unread(past)
		}
		query.Set("cursor", page.Next)
	}
}

// unread returns the error of a list that skipped these shards; nil without any.
func unread(past []int) error {
	if len(past) == 0 {
		return nil
	}
	slices.Sort(past)
	return &store.UnreachableError{Shards: slices.Compact(past)}
}

// Letter returns the dead letter, or store.ErrNoLetter or a *push.AmbiguousError.
func (c *Client) Letter(ctx context.Context, ref push.Ref) (*store.Letter, error) {
	l := &store.Letter{}
	return l, c.callOf(ctx, ref.ID, http.MethodGet, named(letters, ref, ""), nil, l)
}

// Requeue puts a dead letter's notification back on its queue. Its error may be
// store.ErrNoLetter or a *push.AmbiguousError.
func (c *Client) Requeue(ctx context.Context, ref push.Ref) error {
	return c.callOf(ctx, ref.ID, http.MethodPost, named(letters, ref, "/requeue"), nil, nil)
}

// Purge deletes the dead letter. Its error may be store.ErrNoLetter or a
// *push.AmbiguousError.
func (c *Client) Purge(ctx context.Context, ref push.Ref) error {
	return c.callOf(ctx, ref.ID, http.MethodDelete, named(letters, ref, ""), nil, nil)
}

// Audit compares the accepted notifications with the ended and the waiting ones.
func (c *Client) Audit(ctx context.Context) (*inspect.Audit, error) {
	a := &inspect.Audit{}
	return a, c.call(ctx, http.MethodGet, "/v1/audit", nil, a)
}

// Overview returns incidents, sums, workers and providers.
func (c *Client) Overview(ctx context.Context) (*operate.Overview, error) {
	o := &operate.Overview{}
	err := c.call(ctx, http.MethodGet, "/v1/overview", nil, o)
	if err == nil && o.At.IsZero() {
		err = c.strange(http.StatusOK)
	}
	return o, err
}

// ConfirmLoss ends the incident of the loss of data that was shown with this At, and returns the
// loss. Its error may be control.ErrNoLoss or control.ErrMoreLost.
func (c *Client) ConfirmLoss(ctx context.Context, at time.Time) (l control.Loss, err error) {
	err = c.call(ctx, http.MethodDelete, "/v1/losses?at="+url.QueryEscape(at.Format(time.RFC3339Nano)), nil, &l)
	return l, err
}

// Workers returns the workers that are alive.
func (c *Client) Workers(ctx context.Context) ([]control.Snapshot, error) {
	var answer struct {
		Workers []control.Snapshot `json:"workers"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/workers", nil, &answer)
	return answer.Workers, err
}
