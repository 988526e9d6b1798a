package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/pause"
)

// pauses lists those in force.
func (a *API) pauses(ctx context.Context, c *call) (reply, error) {
	list, err := a.o.Control.Pauses(ctx)
	return reply{http.StatusOK, struct {
		Pauses []pause.Pause `json:"pauses"`
	}{c.who.Pauses(list)}}, err
}

// holdOf is what the query selects.
func holdOf(c *call) (pause.Pause, error) {
	h := pause.Pause{App: c.query.Get("app"), Platform: push.Platform(c.query.Get("platform")), Category: c.query.Get("category"), By: c.who.Name}
	some := h.App != "" || h.Platform != "" || h.Category != ""
	switch all := c.query.Get("all"); {
	case all != "" && all != "true":
		return h, badQuery("all", "true, or left out")
	case some == (all == "true"):
		return h, &problem{Status: http.StatusBadRequest, Detail: "The query must have app, platform, category or several of them; or all=true alone."}
	}
	var faults push.Faults
	if err := h.Validate(); errors.As(err, &faults) {
		return h, badQuery(faults[0].Field[1:], "valid: it "+faults[0].Problem)
	}
	return h, c.who.Own(h.App)
}

// wantedPause is the body that begins a pause.
type wantedPause struct {
	Until  time.Time `json:"until"`
	Reason string    `json:"reason"`
}

// beginPause has the workers pause what the query selects.
func (a *API) beginPause(ctx context.Context, c *call) (reply, error) {
	h, err := holdOf(c)
	if err != nil {
		return reply{}, err
	}
	if apps := c.who.Configured(a.o.Apps); h.App != "" && apps.Fault(h.App) != "" {
		return reply{}, badApp(h.App, apps)
	}
	var w wantedPause
	if err := push.ParseStrictly(c.body, &w); err != nil {
		return reply{}, err
	}
	h.Until, h.Reason = w.Until, w.Reason
	switch err := a.o.Control.Pause(ctx, h); {
	case errors.Is(err, pause.ErrOver):
		return reply{}, invalid([]fault{{"/until", "has passed"}})
	case errors.Is(err, pause.ErrTooMany):
		return reply{}, &problem{Status: http.StatusConflict, Detail: "There are too many pauses: end some of them first."}
	case err != nil:
		return reply{}, err
	}
	a.log.Info("a pause is begun", "by", c.who.Name, "remote", c.RemoteAddr)
	return reply{status: http.StatusNoContent}, nil
}

// endPause ends what keeps what the query selects on the queue, and answers it.
func (a *API) endPause(ctx context.Context, c *call) (reply, error) {
	h, err := holdOf(c)
	if err != nil {
		return reply{}, err
	}
	ended, err := a.o.Control.Resume(ctx, h)
	if err != nil {
		return reply{}, err
	}
	if len(ended) == 0 {
		return reply{}, &problem{Status: http.StatusNotFound, Detail: "There is no such pause, and no provider of that in trouble."}
	}
	a.log.Info("pauses are ended", "by", c.who.Name, "remote", c.RemoteAddr, "pauses", len(ended))
	return reply{http.StatusOK, struct {
		Ended []pause.Pause `json:"ended"`
	}{ended}}, nil
}
