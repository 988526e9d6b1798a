package api

import (
	"context"
	"net/http"

	"github.com/pushpace/pushpace/internal/operate"
)

// limits answers the policies in force at the level that the query names.
func (a *API) limits(ctx context.Context, c *call) (reply, error) {
	at, err := level(c)
	if err != nil {
		return reply{}, err
	}
	l, err := c.as.Limits(ctx, at)
	return reply{http.StatusOK, l}, err
}

// quotas lists the limits that all workers share.
func (a *API) quotas(ctx context.Context, c *call) (reply, error) {
	all, err := c.as.Quotas(ctx)
	return reply{http.StatusOK, struct {
		Quotas []operate.QuotaStatus `json:"quotas"`
	}{all}}, err
}
