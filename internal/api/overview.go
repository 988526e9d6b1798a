package api

import (
	"context"
	"net/http"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/worker/control"
)

// overview tells how everything is.
func (a *API) overview(ctx context.Context, c *call) (reply, error) {
	o, err := c.as.Overview(ctx)
	return reply{http.StatusOK, o}, err
}

// throughput tells what all workers did lately.
func (a *API) throughput(ctx context.Context, c *call) (reply, error) {
	t, err := c.as.Throughput(ctx, operate.Range(c.query.Get("range")))
	return reply{http.StatusOK, t}, err
}

// workers lists those that are alive.
func (a *API) workers(ctx context.Context, c *call) (reply, error) {
	list, err := c.as.Workers(ctx)
	return reply{http.StatusOK, struct {
		Workers []control.Snapshot `json:"workers"`
	}{list}}, err
}

// audit compares what was accepted with what became of it, of all apps together.
func (a *API) audit(ctx context.Context, c *call) (reply, error) {
	audit, err := c.as.Audit(ctx)
	return reply{http.StatusOK, audit}, err
}
