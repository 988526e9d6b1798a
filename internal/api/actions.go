package api

import (
	"context"
	"net/http"

	"github.com/pushpace/pushpace/internal/operate/auditlog"
)

// actions returns the audit log.
func (a *API) actions(ctx context.Context, c *call) (reply, error) {
	limit, err := pageLimit(c)
	if err != nil {
		return reply{}, err
	}
	entries, err := c.as.Actions(ctx, c.query.Get("before"), limit)
	return reply{http.StatusOK, struct {
		Actions []auditlog.Entry `json:"actions"`
	}{entries}}, err
}
