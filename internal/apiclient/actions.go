package apiclient

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pushpace/pushpace/internal/trail"
)

// actionsPage is how many actions are asked for at once.
const actionsPage = 1000

// Actions returns the newest actions of operators, the newest first, at most so many.
func (c *Client) Actions(ctx context.Context, newest int) ([]trail.Entry, error) {
	all := []trail.Entry{}
	query := url.Values{}
	for newest = max(1, newest); len(all) < newest; {
		var page struct {
			Actions []trail.Entry `json:"actions"`
		}
		limit := min(newest-len(all), actionsPage)
		query.Set("limit", strconv.Itoa(limit))
		if err := c.call(ctx, http.MethodGet, "/v1/actions?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Actions...)
		if len(page.Actions) < limit {
			break
		}
		query.Set("before", page.Actions[limit-1].Cursor)
	}
	return all, nil
}
