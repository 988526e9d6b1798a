package api

import (
	"context"
	"net/http"
	"strconv"
)

// maxCategories bounds the categories of one request.
const maxCategories = 100

// timeline tells what a user was sent and what waits for its limits.
func (a *API) timeline(ctx context.Context, c *call) (reply, error) {
	of, err := level(c)
	if err != nil {
		return reply{}, err
	}
	app := of.App
	switch {
	case app != "":
	case len(c.who.Apps) == 1:
		app = c.who.Apps[0]
	case len(a.o.Apps) == 1:
		app = a.o.Apps.Names()[0]
	}
	if err := c.who.Own(app); err != nil {
		return reply{}, err
	}
	if _, known := a.o.Apps[app]; !known {
		return reply{}, badApp(app, c.who.Configured(a.o.Apps))
	}
	if len(c.query["category"]) > maxCategories {
		return reply{}, badQuery("category", "there at most "+strconv.Itoa(maxCategories)+" times")
	}
	timeline, err := a.o.Control.Timeline(ctx, app, of.User, c.query["category"])
	return reply{http.StatusOK, timeline}, err
}
