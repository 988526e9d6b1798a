package api

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"

	"github.com/pushpace/pushpace/internal/names"
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
		err = a.taken(c, n)
	}
	if err == nil {
		err = takeKey(n, key)
	}
	if err != nil {
		return reply{}, err
	}
	receipt, err := a.o.Producer.Enqueue(ctx, n)
	if err != nil {
		if p := problemOf(err); p.Status >= http.StatusInternalServerError {
			p.ID = receipt.ID
			return reply{}, p
		}
		return reply{}, err
	}
	answer := accepted{receipt.ID, receipt.Known, names.Warnings(n, a.o.Limits)}
	if receipt.Known {
		return reply{http.StatusOK, answer}, nil
	}
	a.backlog.took(1)
	return reply{http.StatusAccepted, answer}, nil
}

// taken returns why a notification that was parsed is not taken: it is of an app that is
// not the bearer's, or names what the configuration does not have.
func (a *API) taken(c *call, n *push.Notification) error {
	if n.App != "" { // else it is not valid
		if err := c.who.Own(n.App); err != nil {
			return err
		}
	}
	return names.Faults(n, c.who.Configured(a.o.Apps), a.o.Limits)
}

// status says where a notification is.
func (a *API) status(ctx context.Context, c *call) (reply, error) {
	id, err := a.notificationID(ctx, c)
	if err != nil {
		return reply{}, err
	}
	status, err := a.o.Control.Status(ctx, id)
	return reply{http.StatusOK, status}, err
}

// cancel ends a notification that waits.
func (a *API) cancel(ctx context.Context, c *call) (reply, error) {
	id, err := a.notificationID(ctx, c)
	if err != nil {
		return reply{}, err
	}
	if err := a.o.Control.Cancel(ctx, id); err != nil {
		return reply{}, err
	}
	a.repeats.Tell(ctx, a.log, slog.LevelInfo, "a notification is cancelled", []slog.Attr{slog.String("by", c.who.Name)}, slog.String("remote", c.RemoteAddr))
	status, err := a.o.Control.Status(ctx, id)
	return reply{http.StatusOK, status}, err
}

// notificationID is the ID in the path. What cannot be one is not known, nor is that of
// an app that is not the bearer's.
func (a *API) notificationID(ctx context.Context, c *call) (string, error) {
	id := c.PathValue("id")
	if !push.ValidID(id) {
		return "", push.ErrUnknownID
	}
	return id, c.who.Notification(ctx, a.o.Records, id)
}
