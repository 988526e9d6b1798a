package api

import (
	"bytes"
	"context"
	"net/http"
	"strconv"

	"github.com/pushpace/pushpace/internal/api/problems"
	"github.com/pushpace/pushpace/internal/base/names"
	"github.com/pushpace/pushpace/push"
)

// accepted is the answer to one notification.
type accepted struct {
	ID       string   `json:"id"`
	Known    bool     `json:"known,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// enqueue takes one notification, or an array of them.
func (a *API) enqueue(ctx context.Context, c *call) (reply, error) {
	if a.backlog.full(ctx) {
		return reply{}, errFull
	}
	if bytes.HasPrefix(bytes.TrimLeft(c.body, " \t\r\n"), []byte("[")) {
		return a.enqueueAll(ctx, c)
	}
	if err := a.charge(ctx, c, 1); err != nil {
		return reply{}, err
	}
	key, err := readKey(c.Header)
	if err != nil {
		return reply{}, err
	}
	n, err := push.Parse(c.body)
	if err == nil {
		err = takeKey(n, key)
	}
	if err != nil {
		return reply{}, err
	}
	r := c.as.Enqueue(ctx, n)
	if r.Err != nil {
		if p := problems.Of(r.Err); p.Status >= http.StatusInternalServerError {
			p.ID = r.ID
			return reply{}, p
		}
		return reply{}, r.Err
	}
	answer := accepted{r.ID, r.Known, r.Warnings}
	if r.Known {
		return reply{http.StatusOK, answer}, nil
	}
	a.backlog.took(1)
	return reply{http.StatusAccepted, answer}, nil
}

// ref returns the notification or the dead letter that the request names.
func (c *call) ref() push.Ref {
	return push.Ref{ID: c.PathValue("id"), App: c.query.Get("app"), User: c.query.Get("user")}
}

// status says where a notification is.
func (a *API) status(ctx context.Context, c *call) (reply, error) {
	status, err := c.as.Status(ctx, c.ref())
	return reply{http.StatusOK, status}, err
}

// cancel ends a notification that waits.
func (a *API) cancel(ctx context.Context, c *call) (reply, error) {
	others := 0
	if text := c.query.Get(digest); text != "" {
		var err error
		if others, err = strconv.Atoi(text); err != nil || others < 1 {
			return reply{}, badQuery(digest, "the number of others in its digest that may end with it")
		}
	}
	if err := c.as.Cancel(ctx, c.ref(), others); err != nil {
		return reply{}, err
	}
	return a.status(ctx, c)
}

// withdraw ends a user's waiting notifications of a group.
func (a *API) withdraw(ctx context.Context, c *call) (reply, error) {
	q := c.query
	for _, name := range []string{"app", "user"} {
		if q.Get(name) == "" {
			return reply{}, badQuery(name, "given")
		}
	}
	for _, field := range []struct {
		name     string
		maxBytes int
	}{
		{"app", push.MaxNameBytes}, {"user", push.MaxNameBytes}, {"category", push.MaxNameBytes},
		{"collapse_key", push.MaxCollapseKeyBytes}, {"digest_key", push.MaxDigestKeyBytes},
	} {
		if problem := names.Text(q.Get(field.name), field.maxBytes); problem != "" {
			return reply{}, badQuery(field.name, "a name: it "+problem)
		}
	}
	group := push.Group{Thread: q.Get("thread"), CollapseKey: q.Get("collapse_key"), Category: q.Get("category"), DigestKey: q.Get("digest_key")}
	if err := group.Validate(); err != nil {
		return reply{}, &problem{Status: http.StatusBadRequest, Detail: "The query must have exactly one of thread, collapse_key, category and digest_key."}
	}
	done, err := c.as.Withdraw(ctx, q.Get("app"), q.Get("user"), group, q.Get("cursor"))
	return reply{http.StatusOK, done}, err
}
