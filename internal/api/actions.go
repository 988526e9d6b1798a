package api

import (
	"context"
	"net/http"

	"github.com/pushpace/pushpace/internal/trail"
)

// actions tells what operators did.
func (a *API) actions(ctx context.Context, c *call) (reply, error) {
	limit, err := pageLimit(c)
	if err != nil {
		return reply{}, err
	}
	entries, err := c.as.Actions(ctx, c.query.Get("before"), limit)
	return reply{http.StatusOK, struct {
		Actions []trail.Entry `json:"actions"`
	}{entries}}, err
}
