package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/pushpace/pushpace/push"
)

// page is a part of the dead letters, without their jobs.
type page struct {
	Letters []push.Letter `json:"dead_letters"`
	// Next is the cursor of the rest; "" when this is the end.
	Next string `json:"next,omitempty"`
}

// The sizes of a page.
const (
	pageSize    = 100
	maxPageSize = 1000
)

// letters lists dead letters.
func (a *API) letters(ctx context.Context, c *call) (reply, error) {
	limit, err := pageLimit(c)
	if err != nil {
		return reply{}, err
	}
	found, next, err := a.o.Records.LettersFrom(ctx, c.query.Get("cursor"), limit)
	if err != nil {
		return reply{}, err
	}
	answer := page{Letters: make([]push.Letter, 0, len(found)), Next: next}
	for _, l := range found {
		if c.who.Sees(l.App) {
			l.Job = nil
			answer.Letters = append(answer.Letters, *l)
		}
	}
	return reply{http.StatusOK, answer}, nil
}

// pageLimit is how many entries the query asks for.
func pageLimit(c *call) (int, error) {
	text := c.query.Get("limit")
	if text == "" {
		return pageSize, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxPageSize {
		return 0, badQuery("limit", "a number from 1 to "+strconv.Itoa(maxPageSize))
	}
	return n, nil
}

// letter shows a dead letter whole.
func (a *API) letter(ctx context.Context, c *call) (reply, error) {
	l, err := c.who.Letter(ctx, a.o.Records, c.PathValue("id"))
	if err != nil {
		return reply{}, err
	}
	shown := struct {
		*push.Letter
		Notification *push.Notification `json:"notification,omitempty"`
	}{Letter: l}
	if job, err := push.Decode(l.Job); err == nil {
		shown.Notification = job.Notification
	}
	return reply{http.StatusOK, shown}, nil
}

// requeue has a dead letter's notification sent again.
func (a *API) requeue(ctx context.Context, c *call) (reply, error) {
	id := c.PathValue("id")
	if err := c.who.KnowsLetter(ctx, a.o.Records, id); err != nil {
		return reply{}, err
	}
	if err := a.o.Producer.Requeue(ctx, id); err != nil {
		return reply{}, err
	}
	a.log.Info("a dead letter is requeued", "by", c.who.Name, "remote", c.RemoteAddr)
	return reply{http.StatusAccepted, accepted{ID: id}}, nil
}

// purge deletes a dead letter.
func (a *API) purge(ctx context.Context, c *call) (reply, error) {
	id := c.PathValue("id")
	if err := c.who.KnowsLetter(ctx, a.o.Records, id); err != nil {
		return reply{}, err
	}
	there, err := a.o.Records.Purge(ctx, id)
	if err == nil && !there {
		err = push.ErrNoLetter
	}
	if err != nil {
		return reply{}, err
	}
	a.log.Info("a dead letter is purged", "by", c.who.Name, "remote", c.RemoteAddr)
	return reply{status: http.StatusNoContent}, nil
}

// audit compares what was accepted with what became of it, of all apps together.
func (a *API) audit(ctx context.Context, c *call) (reply, error) {
	if err := c.who.Everybody(); err != nil {
		return reply{}, err
	}
	audit, err := a.o.Control.Audit(ctx)
	return reply{http.StatusOK, audit}, err
}
