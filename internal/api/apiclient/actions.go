package apiclient

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/pushpace/pushpace/internal/operate/auditlog"
)

// Actions returns the actions of operators, the newest first; newest bounds their number.
func (c *Client) Actions(ctx context.Context, newest int) ([]auditlog.Entry, error) {
	return newestOf(ctx, c, "/v1/actions", "actions", newest, func(last auditlog.Entry) string { return last.Cursor })
}

// newestPage is the number of entries that one request asks for.
const newestPage = 1000

// newestOf reads the list called name from the path, the newest entry first; most bounds the
// entries. cursorOf returns the cursor of the entries that are older than an entry.
func newestOf[T any](ctx context.Context, c *Client, path, name string, most int, cursorOf func(T) string) ([]T, error) {
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
		query.Set("before", cursorOf(some[limit-1]))
	}
	return all, nil
}
