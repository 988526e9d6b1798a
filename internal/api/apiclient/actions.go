package apiclient

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pushpace/pushpace/internal/operate/auditlog"
)

// Actions returns the newest actions of operators, the newest first, at most so many.
func (c *Client) Actions(ctx context.Context, newest int) ([]auditlog.Entry, error) {
	return newestOf(ctx, c, "/v1/actions", "actions", newest, func(last auditlog.Entry) string { return last.Cursor })
}

// newestPage is how many of a list are asked for at once.
const newestPage = 1000

// newestOf returns the newest entries of the path's list of that name, at most n. before returns
// the cursor for older entries, from the last one.
func newestOf[T any](ctx context.Context, c *Client, path, name string, most int, before func(last T) string) ([]T, error) {
	all := []T{}
	query := url.Values{}
	for most = max(1, most); len(all) < most; {
		limit := min(most-len(all), newestPage)
		query.Set("limit", strconv.Itoa(limit))
		var page map[string][]T
		if err := c.call(ctx, http.MethodGet, path+"?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		some := page[name]
		if all = append(all, some...); len(some) < limit {
			break
		}
		query.Set("before", before(some[limit-1]))
	}
	return all, nil
}
