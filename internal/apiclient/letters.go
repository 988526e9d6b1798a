package apiclient

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/worker/control"
)

const letters = "/v1/dead-letters"

// pageSize is how many dead letters are asked for at once.
const pageSize = 500

// Letters calls f with each selected dead letter, without its job, in no order, until f
// answers false.
func (c *Client) Letters(ctx context.Context, s operate.LetterSelection, f func(*ledger.Letter) bool) error {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	for name, value := range map[string]string{"app": s.App, "category": s.Category, "reason": s.Reason} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if s.Since > 0 {
		query.Set("since", s.Since.String())
	}
	for {
		var page struct {
			Letters []ledger.Letter `json:"dead_letters"`
			Next    string          `json:"next"`
		}
		if err := c.call(ctx, http.MethodGet, letters+"?"+query.Encode(), nil, &page); err != nil {
			return err
		}
		for i := range page.Letters {
			if !f(&page.Letters[i]) {
				return nil
			}
		}
		if page.Next == "" {
			return nil
		}
		query.Set("cursor", page.Next)
	}
}

// Letter returns the dead letter with that ID, or ledger.ErrNoLetter.
func (c *Client) Letter(ctx context.Context, id string) (*ledger.Letter, error) {
	l := &ledger.Letter{}
	err := c.call(ctx, http.MethodGet, letters+segment(id), nil, l)
	return l, about(err, ledger.ErrNoLetter)
}

// Requeue puts a dead letter's notification back on its queue. It answers
// ledger.ErrNoLetter when there is none.
func (c *Client) Requeue(ctx context.Context, id string) error {
	return about(c.call(ctx, http.MethodPost, letters+segment(id)+"/requeue", nil, nil), ledger.ErrNoLetter)
}

// Purge deletes the dead letter. It answers ledger.ErrNoLetter when there is none.
func (c *Client) Purge(ctx context.Context, id string) error {
	return about(c.call(ctx, http.MethodDelete, letters+segment(id), nil, nil), ledger.ErrNoLetter)
}

// Audit compares what was accepted with what became of it.
func (c *Client) Audit(ctx context.Context) (*control.Audit, error) {
	a := &control.Audit{}
	return a, c.call(ctx, http.MethodGet, "/v1/audit", nil, a)
}

// Overview tells how everything is.
func (c *Client) Overview(ctx context.Context) (*operate.Overview, error) {
	o := &operate.Overview{}
	err := c.call(ctx, http.MethodGet, "/v1/overview", nil, o)
	if err == nil && o.At.IsZero() {
		err = c.strange(http.StatusOK)
	}
	return o, err
}

// Workers returns those that are alive.
func (c *Client) Workers(ctx context.Context) ([]control.Snapshot, error) {
	var answer struct {
		Workers []control.Snapshot `json:"workers"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/workers", nil, &answer)
	return answer.Workers, err
}
