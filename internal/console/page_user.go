package console

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/internal/words/timeline"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// A userView is the data of user.html.
type userView struct {
	User string
	// App is the app shown; "" if the reader must choose one.
	App                     string
	Apps, Categories, Spans []link
	// Hidden is the number of categories left out.
	Hidden int64
	// Sentence explains why the next notification waits and until when, and Others counts the
	// rest.
	Sentence, Others words.Sentence
	// Next is the next waiting notification, if any.
	Next *bookingRow
	// Unknown means that the user has neither sent nor waiting notifications.
	Unknown bool

	Picture       *picture
	From, Now, To time.Time

	Limits []limitRow
	Booked []bookingRow
	Sent   []sentRow
	// BookingPages and SentPages link to the rest of the lists.
	BookingPages, SentPages listPages
}

// A link leads to another view of the page.
type link struct {
	Label, To string
	Current   bool
}

// A limitRow is a limit in force, or the reason why there is none.
type limitRow struct {
	timeline.LimitRow
	Category string // "" for the general limits
	Source   limits.Source
	Until    time.Time
	Edit     string // the address to change the limit
}

// A bookingRow is a waiting notification.
type bookingRow struct {
	ID, Category string
	Slot         time.Time
	In           string
	Limit        string
	Cause        legend
	State        string // "" if it was not read
	Critical     bool
}

// A sentRow is a sent notification.
type sentRow struct {
	ID, Category string
	At           time.Time
	Ago          string
	State        push.State // "" if unknown
	Critical     bool
}

// listPages are the numbers of the rows shown, and links to the pages before and after.
type listPages struct {
	First, Last, All int64
	Before, After    string // "" for none
}

const (
	// mostCategories bounds the categories read for a page, besides the general limits.
	mostCategories = 20
	// listedCategories bounds the categories that the page links to.
	listedCategories = 100
	// userRows is the number of rows of a list on a page.
	userRows = 25
	// mostRow bounds the number of a row in an address.
	mostRow = 1_000_000
)

var (
	errNoSuchApp  = &fault{http.StatusNotFound, "There is no such app", "The configuration has none of this name."}
	errNoSuchName = &fault{http.StatusBadRequest, "The address is not well formed", "A name is UTF-8 without control characters, and has 1 to " + strconv.Itoa(push.MaxNameBytes) + " bytes."}
)

// A userQuery is the parsed address of a user's page.
type userQuery struct {
	user, app  string
	categories []string
	span       string
	from, sent int // the first rows
}

// userQuery parses the address.
func (v *visit) userQuery() (q userQuery, err error) {
	if err := checkName("user", v.PathValue("user")); err != nil {
		return q, err
	}
	if err := checkNames(v.query); err != nil {
		return q, err
	}
	q = userQuery{user: v.PathValue("user"), app: v.query.Get("app"), span: cmp.Or(v.query.Get("span"), "auto")}
	for _, c := range v.query["category"] {
		if c != "" && !slices.Contains(q.categories, c) {
			q.categories = append(q.categories, c)
		}
	}
	if len(q.categories) > mostCategories {
		return q, errBadQuery
	}
	for _, name := range append([]string{q.user}, q.categories...) {
		if !push.ValidName(name) {
			return q, errNoSuchName
		}
	}
	if _, known := q.of(); !known {
		return q, errBadQuery
	}
	for name, row := range map[string]*int{"from": &q.from, "sent": &q.sent} {
		if !v.query.Has(name) {
			continue
		}
		if *row, err = strconv.Atoi(v.query.Get(name)); err != nil || *row < 0 || *row > mostRow {
			return q, errBadQuery
		}
	}
	return q, nil
}

// of returns the requested span, 0 for auto.
func (q userQuery) of() (d time.Duration, known bool) {
	for _, s := range spans {
		if s.Name == q.span {
			return s.Of, true
		}
	}
	return 0, q.span == "auto"
}

// path returns the address of the query.
func (q userQuery) path() string {
	query := url.Values{"category": q.categories}
	if q.app != "" {
		query.Set("app", q.app)
	}
	if q.span != "auto" {
		query.Set("span", q.span)
	}
	for name, row := range map[string]int{"from": q.from, "sent": q.sent} {
		if row > 0 {
			query.Set(name, strconv.Itoa(row))
		}
	}
	path := pathOf("users", q.user)
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}

func (c *Console) userPage(ctx context.Context, v *visit) (page, error) {
	q, err := v.userQuery()
	if err != nil {
		return page{}, err
	}
	apps := v.as.Apps()
	if q.app == "" && len(apps) == 1 {
		q.app = apps[0]
	}
	p := page{name: "user", title: "User " + words.Printable(q.user)}
	switch {
	case q.app == "":
		p.data = userView{User: q.user, Apps: appLinks(q, apps)}
		return p, nil
	case !slices.Contains(apps, q.app):
		return p, errNoSuchApp
	}
	named, err := v.as.CategoriesOf(ctx, q.app, q.user)
	if err != nil {
		return p, err
	}
	shown := q.categories
	if len(shown) == 0 && len(named) > mostCategories {
		shown = named[:mostCategories]
	}
	user, err := v.as.User(ctx, q.app, q.user, shown)
	if err != nil {
		return p, err
	}
	view := viewOfUser(user, q)
	view.Apps = appLinks(q, apps)
	view.Categories = categoryLinks(q, named[:min(len(named), listedCategories)])
	if len(q.categories) == 0 {
		view.Hidden = int64(max(0, len(named)-mostCategories))
	}
	p.live, p.data = true, view
	return p, nil
}

// appLinks returns links to the user's page in each app.
func appLinks(q userQuery, apps []string) (all []link) {
	for _, app := range apps {
		all = append(all, link{app, userQuery{user: q.user, app: app, span: q.span}.path(), app == q.app})
	}
	return all
}

// categoryLinks returns links to the page with each category alone, and with all of them.
func categoryLinks(q userQuery, names []string) []link {
	of := func(label string, categories ...string) link {
		return link{label, userQuery{user: q.user, app: q.app, span: q.span, categories: categories}.path(), slices.Equal(categories, q.categories)}
	}
	all := []link{of("")}
	for _, name := range names {
		all = append(all, of(name, name))
	}
	return all
}

// viewOfUser makes the page of a user.
func viewOfUser(u *operate.User, q userQuery) userView {
	t := u.Timeline
	span, _ := q.of()
	if span == 0 {
		span = autoSpan(t)
	}
	v := userView{
		User: t.User, App: t.App, Sentence: timeline.Answer(t), Others: timeline.Others(t),
		From: t.Now.Add(-span), Now: t.Now, To: t.Now.Add(span),
		Picture: drawTimeline(t, span, func(id string) bool { return critical(u, id) }),
	}
	for _, name := range []string{"auto", "1m", "10m", "1h", "24h", "7d"} {
		v.Spans = append(v.Spans, link{name, userQuery{user: q.user, app: q.app, categories: q.categories, span: name}.path(), name == q.span})
	}
	if next := timeline.Next(t); next != nil {
		row := bookingRowOf(t, next)
		v.Next = &row
	}
	for _, s := range t.Scopes {
		v.Limits = append(v.Limits, limitRows(t, s)...)
	}
	waiting, sent := t.Bookings, sentRows(u)
	v.Unknown = len(waiting) == 0 && len(sent) == 0
	q.from, q.sent = firstRow(q.from, len(waiting)), firstRow(q.sent, len(sent))
	from := func(row int) string { other := q; other.from = row; return other.path() }
	waiting, v.BookingPages = pageOf(waiting, q.from, from)
	for i := range waiting {
		row := bookingRowOf(t, &waiting[i])
		if int(v.BookingPages.First)+i > inspect.TimelineStates {
			row.State = ""
		}
		v.Booked = append(v.Booked, row)
	}
	from = func(row int) string { other := q; other.sent = row; return other.path() }
	v.Sent, v.SentPages = pageOf(sent, q.sent, from)
	return v
}

// critical reports whether a sent notification was critical, as far as known.
func critical(u *operate.User, id string) bool { return u.Sent[id].Queue == push.Critical.Queue() }

// firstRow returns the first row of the page that contains from, or of the last page if the list
// has fewer rows; count is the number of rows.
func firstRow(from, count int) int { return min(from, max(0, count-1)/userRows*userRows) }

// pageOf returns the page of rows that begins at from, and the links to the pages before and after.
// at returns the address of a page by its first row.
func pageOf[T any](all []T, from int, at func(from int) string) (shown []T, p listPages) {
	to := min(from+userRows, len(all))
	p = listPages{First: int64(from + 1), Last: int64(to), All: int64(len(all))}
	if from > 0 {
		p.Before = at(max(0, from-userRows))
	}
	if to < len(all) {
		p.After = at(to)
	}
	return all[from:to], p
}

func categoryOf(scope string) string {
	if scope == throttle.General {
		return ""
	}
	return scope
}

func limitRows(t *inspect.Timeline, s inspect.TimelineScope) (all []limitRow) {
	edit := url.Values{"app": {t.App}, "user": {t.User}}
	one := limitRow{Category: categoryOf(s.Scope), Source: s.Source, Until: s.Until}
	if one.Category != "" {
		edit.Set("category", one.Category)
	}
	one.Edit = Path + "limits/edit?" + edit.Encode()
	for _, l := range timeline.Limits(t, s) {
		row := one
		row.LimitRow = l
		all = append(all, row)
	}
	return all
}

func bookingRowOf(t *inspect.Timeline, w *inspect.Waiter) bookingRow {
	row := bookingRow{ID: w.ID, Category: cmp.Or(w.Category, categoryOf(w.Scope)), Slot: w.Slot, In: timeline.In(t, w), State: timeline.State(w), Critical: w.Critical}
	period := timeline.Period(t, w)
	row.Limit = words.Limit(w.Scope, w.Rule, period)
	if w.After.ID != "" && period > 0 {
		row.Cause = causeText(w, period, t.Now)
	}
	return row
}

// sentRows returns the sent notifications, the latest first.
func sentRows(u *operate.User) (all []sentRow) {
	for _, s := range timeline.Sent(u.Timeline) {
		all = append(all, sentRow{s.ID, cmp.Or(s.Category, u.Sent[s.ID].Category), s.At, words.Span(u.Now.Sub(s.At)), u.Sent[s.ID].State, critical(u, s.ID)})
	}
	return all
}
