package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/pushpace/pushpace/internal/operate/inspect"
)

// waitingQuery are the parameters of a selection.
var waitingQuery = []string{"app", "user", "category", "collapse_key", "for", "mutable", "cursor"}

// waitingList returns the waiting notifications, one page at a time.
func (a *API) waitingList(ctx context.Context, c *call) (reply, error) {
	s := inspect.Selection{App: c.query.Get("app"), User: c.query.Get("user"), Category: c.query.Get("category"), CollapseKey: c.query.Get("collapse_key"), For: inspect.Cause(c.query.Get("for"))}
	if err := c.as.KnownApp(s.App); err != nil {
		return reply{}, err
	}
	var err error
	if s.Mutable, err = flag(c.query, "mutable"); err != nil {
		return reply{}, err
	}
	list, err := c.as.Waiting(ctx, s, c.query.Get("cursor"))
	return reply{http.StatusOK, list}, err
}

// maxCategories bounds the categories of one request.
const maxCategories = 100

// timeline returns a user's sent and waiting notifications.
func (a *API) timeline(ctx context.Context, c *call) (reply, error) {
	app, user := c.query.Get("app"), c.PathValue("user")
	if err := checkName(c, "app", app, c.query.Has("app")); err != nil {
		return reply{}, err
	}
	if err := checkName(c, "user", user, true); err != nil {
		return reply{}, err
	}
	if len(c.query["category"]) > maxCategories {
		return reply{}, badQuery("category", "there at most "+strconv.Itoa(maxCategories)+" times")
	}
	timeline, err := c.as.Timeline(ctx, app, user, c.query["category"])
	return reply{http.StatusOK, timeline}, err
}
