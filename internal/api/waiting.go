package api

import (
	"context"
	"net/http"

	"github.com/pushpace/pushpace/worker/control"
)

// waitingQuery are the parameters that say which of what waits.
var waitingQuery = []string{"app", "user", "category", "collapse_key", "cursor"}

// waitingList lists what waits, a page at a time.
func (a *API) waitingList(ctx context.Context, c *call) (reply, error) {
	s := control.Selection{App: c.query.Get("app"), User: c.query.Get("user"), Category: c.query.Get("category"), CollapseKey: c.query.Get("collapse_key"), Apps: c.who.Apps}
	list, next, err := a.o.Control.Queued(ctx, s, c.query.Get("cursor"))
	if list == nil {
		list = []control.Queued{}
	}
	return reply{http.StatusOK, struct {
		Waiting []control.Queued `json:"waiting"`
		// Next is the cursor of the rest; "" when this is the end.
		Next string `json:"next,omitempty"`
	}{list, next}}, err
}
