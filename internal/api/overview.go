package api

import (
	"context"
	"net/http"
	"time"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/worker/control"
)

func (a *API) overview(ctx context.Context, c *call) (reply, error) {
	o, err := c.as.Overview(ctx)
	return reply{http.StatusOK, o}, err
}

// confirmLoss ends the incident of the loss of data that the overview had.
func (a *API) confirmLoss(ctx context.Context, c *call) (reply, error) {
	at, err := time.Parse(time.RFC3339Nano, c.query.Get("at"))
	if err != nil {
		return reply{}, badQuery("at", "the at of the overview's lost")
	}
	l, err := c.as.ConfirmLoss(ctx, at)
	return reply{http.StatusOK, l}, err
}

// throughput returns the recent work of all workers together.
func (a *API) throughput(ctx context.Context, c *call) (reply, error) {
	t, err := c.as.Throughput(ctx, operate.Range(c.query.Get("range")))
	return reply{http.StatusOK, t}, err
}

// workers returns the workers that are alive.
func (a *API) workers(ctx context.Context, c *call) (reply, error) {
	list, err := c.as.Workers(ctx)
	return reply{http.StatusOK, struct {
		Workers []control.Snapshot `json:"workers"`
	}{list}}, err
}

// audit compares accepted, ended and waiting notifications of all apps together.
func (a *API) audit(ctx context.Context, c *call) (reply, error) {
	audit, err := c.as.Audit(ctx)
	return reply{http.StatusOK, audit}, err
}
