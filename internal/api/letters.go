package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/pushpace/pushpace/internal/base/duration"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/store"
)

// The sizes of a page.
const (
	pageSize    = 100
	maxPageSize = 1000
)

// lettersQuery are the parameters that select dead letters, and the page.
var lettersQuery = []string{"app", "category", "reason", "since", "cursor", "limit"}

// letters lists the selected dead letters, without their jobs.
func (a *API) letters(ctx context.Context, c *call) (reply, error) {
	limit, err := pageLimit(c)
	if err != nil {
		return reply{}, err
	}
	s := operate.LetterSelection{App: c.query.Get("app"), Category: c.query.Get("category"), Reason: c.query.Get("reason")}
	if text := c.query.Get("since"); text != "" {
		if s.Since, err = duration.Parse(text); err != nil || s.Since <= 0 {
			return reply{}, badQuery("since", "a duration such as 2h or 5d")
		}
	}
	if err := c.as.MayNarrow(s.App); err != nil { // the app need not be configured any more
		return reply{}, err
	}
	page, err := c.as.Letters(ctx, c.query.Get("cursor"), limit)
	if err != nil {
		return reply{}, err
	}
	now := time.Now()
	page.Letters = slices.DeleteFunc(page.Letters, func(l store.Letter) bool { return !s.Matches(&l, now) })
	return reply{http.StatusOK, page}, nil
}

// pageLimit returns the number of entries that the query asks for.
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

// letter returns a dead letter with its job.
func (a *API) letter(ctx context.Context, c *call) (reply, error) {
	l, err := c.as.Letter(ctx, c.ref())
	return reply{http.StatusOK, l}, err
}

// requeue puts a dead letter's notification back on its queue.
func (a *API) requeue(ctx context.Context, c *call) (reply, error) {
	ref := c.ref()
	return reply{http.StatusAccepted, accepted{ID: ref.ID}}, c.as.Requeue(ctx, ref)
}

// purge deletes a dead letter.
func (a *API) purge(ctx context.Context, c *call) (reply, error) {
	return reply{status: http.StatusNoContent}, c.as.Purge(ctx, c.ref())
}
