package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/pushpace/pushpace/internal/base/strictjson"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/pause"
)

func (a *API) pauses(ctx context.Context, c *call) (reply, error) {
	list, err := c.as.Pauses(ctx)
	return reply{http.StatusOK, struct {
		Pauses []pause.Pause `json:"pauses"`
	}{list}}, err
}

// pauseOf returns the query's selection.
func pauseOf(c *call) (pause.Pause, error) {
	p := pause.Pause{App: c.query.Get("app"), Platform: push.Platform(c.query.Get("platform")), Category: c.query.Get("category")}
	some := p.App != "" || p.Platform != "" || p.Category != ""
	switch all, err := flag(c.query, "all"); {
	case err != nil:
		return p, err
	case some == all:
		return p, &problem{Status: http.StatusBadRequest, Detail: "The query must have app, platform, category or several of them; or all=true alone."}
	}
	var faults push.Faults
	if err := p.Validate(); errors.As(err, &faults) {
		return p, badQuery(faults[0].Field[1:], "valid: it "+faults[0].Problem)
	}
	return p, nil
}

// wantedPause is the body of a request that begins a pause.
type wantedPause struct {
	Until  *time.Time `json:"until"`
	Reason string     `json:"reason"`
}

// beginPause pauses the query's selection on all workers.
func (a *API) beginPause(ctx context.Context, c *call) (reply, error) {
	p, err := pauseOf(c)
	if err != nil {
		return reply{}, err
	}
	var w wantedPause
	if err := strictjson.Parse(c.body, &w); err != nil {
		return reply{}, err
	}
	if p.Until, err = endOf(w.Until); err != nil {
		return reply{}, err
	}
	p.Reason = w.Reason
	p, err = c.as.Pause(ctx, p)
	return reply{http.StatusOK, p}, err
}

// endOf returns the end that a body sets; the zero time means no end. A zero time in the body is
// an end in the past.
func endOf(until *time.Time) (time.Time, error) {
	switch {
	case until == nil:
		return time.Time{}, nil
	case until.IsZero():
		return time.Time{}, invalid([]fault{{"/until", "has passed"}})
	}
	return *until, nil
}

// endPause ends the pauses of the query's selection, and returns them.
func (a *API) endPause(ctx context.Context, c *call) (reply, error) {
	p, err := pauseOf(c)
	if err != nil {
		return reply{}, err
	}
	ended, err := c.as.Resume(ctx, p)
	return reply{http.StatusOK, struct {
		Ended []pause.Pause `json:"ended"`
	}{ended}}, err
}
