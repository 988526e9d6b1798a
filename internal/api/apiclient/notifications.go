package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/pushpace/pushpace/internal/api/problems"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
)

const notifications = "/v1/notifications"

// An Item is a notification to enqueue: its ID, and all of it in JSON, which includes the
// ID.
type Item struct {
	ID   string
	JSON []byte
}

// ItemOf returns the notification as an Item.
func ItemOf(n *push.Notification) Item {
	text, err := json.Marshal(n)
	if err != nil { // never: a notification holds texts, numbers and instants
		panic(err)
	}
	return Item{n.ID, text}
}

// Enqueue enqueues at most 1,000 notifications, each on its own, and each user's in order. A
// refusal is push.Faults or push.ErrConflict. Any other error leaves open whether the
// notification was accepted: enqueue it again under the same ID.
func (c *Client) Enqueue(ctx context.Context, ns []Item) []operate.Result {
	results := make([]operate.Result, len(ns))
	status, header, answer, err := c.send(ctx, http.MethodPost, notifications, array(ns))
	if status == http.StatusRequestEntityTooLarge && len(ns) > 1 {
		half := len(ns) / 2
		return append(c.Enqueue(ctx, ns[:half]), c.Enqueue(ctx, ns[half:])...)
	}
	var batch struct {
		Results []problems.Result `json:"results"`
	}
	switch {
	case err != nil:
	case json.Unmarshal(answer, &batch) == nil && len(batch.Results) == len(ns):
	case status == http.StatusRequestEntityTooLarge:
		err = push.Faults{{Problem: "is larger than the API accepts"}}
	case status == http.StatusOK, status == http.StatusAccepted:
		err = c.strange(status)
	default:
		err = c.problem(status, header, answer, "")
	}
	for i := range results {
		r := &results[i]
		r.ID, r.Err = ns[i].ID, err
		if err != nil {
			continue
		}
		one := batch.Results[i]
		r.Warnings = one.Warnings
		switch one.Status {
		case http.StatusAccepted:
			r.ID = one.ID
		case http.StatusOK:
			r.ID, r.Known = one.ID, true
		case http.StatusConflict:
			r.ID, r.Err = one.ID, push.ErrConflict
		case http.StatusBadRequest, http.StatusForbidden: // forbidden: the app is not the token's
			r.Err = problems.Faults(one.Errors, "/"+strconv.Itoa(i))
		default:
			r.Err = c.failedOne(one.Status, one.Detail, header)
		}
	}
	return results
}

// array returns a body with the notifications.
func array(ns []Item) *bytes.Buffer {
	size := 2
	for i := range ns {
		size += len(ns[i].JSON) + 1
	}
	body := bytes.NewBuffer(make([]byte, 0, size))
	body.WriteByte('[')
	for i := range ns {
		if i > 0 {
			body.WriteByte(',')
		}
		body.Write(ns[i].JSON)
	}
	body.WriteByte(']')
	return body
}

// named returns the list's path, the ID and the rest, with app and user as the query.
func named(list string, ref push.Ref, rest string) string {
	path := list + segment(ref.ID) + rest
	query := url.Values{}
	for name, value := range map[string]string{"app": ref.App, "user": ref.User} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}

// Status returns where the notification is, or push.ErrUnknownID or a *push.AmbiguousError.
func (c *Client) Status(ctx context.Context, ref push.Ref) (*inspect.Status, error) {
	s := &inspect.Status{}
	err := c.callOf(ctx, ref.ID, http.MethodGet, named(notifications, ref, ""), nil, s)
	if err == nil && s.Record == nil {
		err = c.strange(http.StatusOK)
	}
	return s, err
}

// Cancel ends a waiting notification and the notifications that it carries, if these are not more
// than others. It returns the errors of control.Control.
func (c *Client) Cancel(ctx context.Context, ref push.Ref, others int) error {
	path := named(notifications, ref, "")
	if others > 0 {
		separator := "?"
		if strings.Contains(path, "?") {
			separator = "&"
		}
		path += separator + "digest=" + strconv.Itoa(others)
	}
	return c.callOf(ctx, ref.ID, http.MethodDelete, path, nil, nil)
}

// Withdraw ends a user's waiting notifications of the group. Beside an error it returns the results
// so far.
func (c *Client) Withdraw(ctx context.Context, app, user string, g push.Group) (w push.Withdrawn, err error) {
	query := url.Values{"app": {app}, "user": {user}}
	for name, value := range map[string]string{"thread": g.Thread, "collapse_key": g.CollapseKey, "category": g.Category, "digest_key": g.DigestKey} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for {
		var page control.Withdrawn
		if err := c.call(ctx, http.MethodDelete, notifications+"?"+query.Encode(), nil, &page); err != nil {
			return w, err
		}
		w.Ended, w.Carried, w.InFlight = w.Ended+page.Ended, w.Carried+page.Carried, w.InFlight+page.InFlight
		if page.Next == "" {
			return w, nil
		}
		query.Set("cursor", page.Next)
	}
}

// Timeline returns the timeline of the app's user. The app may be "" if there is only one
// app. Without categories the timeline is of all categories.
func (c *Client) Timeline(ctx context.Context, app, user string, categories []string) (*inspect.Timeline, error) {
	query := url.Values{}
	if app != "" {
		query.Set("app", app)
	}
	for _, category := range categories {
		query.Add("category", category)
	}
	t := &inspect.Timeline{}
	path := "/v1/users" + segment(user) + "/timeline"
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return t, c.call(ctx, http.MethodGet, path, nil, t)
}
