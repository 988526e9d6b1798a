package console

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/pushpace/pushpace/internal/base/near"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
)

const (
	// findBytes bounds what is looked for, and findApps the apps that a user is looked for
	// in.
	findBytes = 256
	findApps  = 20
	// meantMost is how many that could be meant are named.
	meantMost  = 5
	meantPages = 3
)

// A findView is what find.html shows.
type findView struct {
	Query string
	// Apps are those that know a user of that name.
	Apps []string
	// Others are the other apps, where such a user may be.
	Others []string
	// Refs and Users could be meant, of what was looked at.
	Refs  []push.Ref
	Users []meantUser
}

type meantUser struct{ App, User string }

// findPage leads to the notification of that ID, or else to the user of that name.
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

// findUser adds which apps know the user, and who or what else could be meant.
func findUser(ctx context.Context, v *visit, view *findView) error {
	found, err := v.look(ctx, control.Selection{}, "", 1<<30, meantPages, lookTime(ctx)/2)
	if err != nil {
		return err
	}
	for _, app := range v.as.Apps() {
		if !push.ValidName(view.Query) || view.Query == "." || view.Query == ".." {
			break
		}
		known := slices.ContainsFunc(found.rows, func(q control.Queued) bool { return q.App == app && q.User == view.Query })
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
	if len(view.Apps) == 0 {
		view.Refs, view.Users = meant(view.Query, found.rows)
	}
	return nil
}

// knows reports whether anything is known of the timeline's user.
func knows(t *control.Timeline) bool {
	return len(t.Bookings) > 0 || slices.ContainsFunc(t.Scopes, func(s control.TimelineScope) bool {
		return len(s.Admissions) > 0 || s.Source != limits.FromConfiguration && strings.Contains(string(s.Source), "user")
	})
}

// meant returns which notifications and users of these could be meant by a text: whose
// names have it in them, or are spelt much like it.
func meant(text string, rows []control.Queued) (refs []push.Ref, users []meantUser) {
	lower := strings.ToLower(text)
	has := func(name string) bool { return strings.Contains(strings.ToLower(name), lower) }
	var allIDs, allUsers []string
	for _, q := range rows {
		allIDs, allUsers = append(allIDs, q.ID), append(allUsers, q.User)
	}
	alike := []string{near.Name(text, allIDs), near.Name(text, allUsers)}
	for _, q := range rows {
		if len(refs) < meantMost && (has(q.ID) || q.ID == alike[0]) {
			refs = append(refs, q.Ref())
		}
		u := meantUser{q.App, q.User}
		if q.User != "" && len(users) < meantMost && (has(q.User) || q.User == alike[1]) && !slices.Contains(users, u) {
			users = append(users, u)
		}
	}
	slices.SortFunc(refs, func(a, b push.Ref) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.User, b.User), cmp.Compare(a.App, b.App))
	})
	slices.SortFunc(users, func(a, b meantUser) int { return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.App, b.App)) })
	return refs, users
}
