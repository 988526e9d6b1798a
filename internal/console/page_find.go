package console

import (
	"context"
	"slices"
	"strings"

	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
)

const (
	// findBytes bounds the query, findApps the number of timelines read, and findPages the pages
	// of waiting notifications read.
	findBytes = 256
	findApps  = 20
	findPages = 3
)

// A findView is the data of find.html.
type findView struct {
	Query string
	// Apps are the apps that know a user of that name.
	Apps []string
	// Others are the other apps. The user may be new to them.
	Others []string
}

// findPage redirects to the notification with that ID, or else to the user of that name.
func (c *Console) findPage(ctx context.Context, v *visit) (page, error) {
	q, err := one(v.query, "q", findBytes)
	if err != nil {
		return page{}, err
	}
	q = strings.TrimSpace(q)
	if hasPage(q) {
		switch notification, letter, err := v.as.Knows(ctx, q); {
		case err != nil:
			return page{}, err
		case notification:
			return page{to: pathOf("notifications", q)}, nil
		case letter:
			return page{to: pathOf("dead-letters", q)}, nil
		}
	}
	view := findView{Query: q}
	if q != "" {
		if err := findUser(ctx, v, &view); err != nil {
			return page{}, err
		}
	}
	if len(view.Apps) == 1 {
		return page{to: address(pathOf("users", q), field{"app", view.Apps[0]})}, nil
	}
	return page{name: "find", title: "Find", data: view}, nil
}

// findUser sorts the apps into view.Apps, which know the user, and view.Others.
func findUser(ctx context.Context, v *visit, view *findView) error {
	if !push.ValidName(view.Query) || view.Query == "." || view.Query == ".." {
		return nil
	}
	found, err := v.search(ctx, inspect.Selection{User: view.Query}, "", 1<<30, findPages, searchTime(ctx)/2)
	if err != nil {
		return err
	}
	for _, app := range v.as.Apps() {
		known := slices.ContainsFunc(found.rows, func(q inspect.Queued) bool { return q.App == app })
		if !known && len(view.Apps)+len(view.Others) < findApps {
			line, err := v.as.Timeline(ctx, app, view.Query, nil)
			if err != nil {
				return err
			}
			known = knows(line)
		}
		if known {
			view.Apps = append(view.Apps, app)
		} else {
			view.Others = append(view.Others, app)
		}
	}
	return nil
}

// knows reports whether the timeline's user has admissions, bookings or overrides.
func knows(t *inspect.Timeline) bool {
	return len(t.Bookings) > 0 || slices.ContainsFunc(t.Scopes, func(s inspect.TimelineScope) bool {
		return len(s.Admissions) > 0 || s.Source != limits.FromConfiguration && strings.Contains(string(s.Source), "user")
	})
}
