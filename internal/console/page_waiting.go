package console

import (
	"cmp"
	"context"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/push"
)

const (
	// searchPages is the number of pages of the queue that a page of the console reads: as many jobs
	// as the overview samples.
	searchPages = 25
	// topShown bounds the entries of each summary: causes, reasons, users.
	topShown = 10
)

// waitingFilter are the parameters that select waiting notifications.
var waitingFilter = []string{"app", "user", "category", "collapse_key", "for"}

// A waitingView is the data of waiting.html.
type waitingView struct {
	Filter           []field
	Apps, Categories []string
	App              string
	Fors             []choice
	// Answer says how many were read, and All that the sums cover everything.
	Answer string
	All    bool
	// Part means that the page did not read all waiting notifications.
	Part bool
	// First means that this is the first page of the list, which shows the sums.
	First         bool
	Causes        []causeSum
	Most, Longest []userSum
	Rows          []waitingRow
	// Next is the address of the next page, and Begin of the first.
	Next, Begin string
	// Without lists the parts that could not be read.
	Without []string
}

// A choice is an option of a form's field.
type choice struct {
	Value, Label string
	Chosen       bool
}

// A causeSum counts the notifications that wait for the same cause.
type causeSum struct {
	Text    string
	Narrow  string // the address of these notifications
	Count   string
	Oldest  time.Time
	Soonest time.Time // zero if unknown
}

// A userSum counts a user's waiting notifications.
type userSum struct {
	App, User string
	Count     int64
	Oldest    time.Time
	Narrow    string // the address of these notifications
}

type waitingRow struct {
	inspect.Queued
	Waits string
}

// A searchResult is the result of a bounded search of the queue.
type searchResult struct {
	rows []inspect.Queued // without duplicates
	// pages are the pages of the queue that were read, and next is the cursor of the rest; "" if
	// there is none.
	pages []searchedPage
	next  string
	// unread are the shards that did not answer; for causesUnread see inspect.Page.
	unread       []int
	causesUnread bool
	// late means that the search ended because its time was over.
	late bool
}

// more reports whether the queue may hold more than rows.
func (s *searchResult) more() bool { return s.next != "" || len(s.unread) > 0 }

// A searchedPage is a page of the queue: its cursor, and the index of its first row.
type searchedPage struct {
	cursor string
	from   int
}

// search searches the queue for s from cursor on. It stops after maxRows rows, maxPages pages or
// the time maxTime.
func (v *visit) search(ctx context.Context, s inspect.Selection, cursor string, maxRows, maxPages int, maxTime time.Duration) (*searchResult, error) {
	seen, end := map[push.Ref]bool{}, time.Now().Add(maxTime)
	found := &searchResult{next: cursor}
	for {
		found.pages = append(found.pages, searchedPage{found.next, len(found.rows)})
		list, err := v.as.Waiting(ctx, s, found.next)
		if err != nil {
			return nil, err
		}
		found.unread = union(found.unread, list.Unread)
		found.causesUnread = found.causesUnread || list.CausesUnread
		for _, q := range list.Waiting {
			if !seen[q.Ref()] {
				seen[q.Ref()] = true
				found.rows = append(found.rows, q)
			}
		}
		found.late = time.Now().After(end)
		if found.next = list.Next; found.next == "" || len(found.rows) >= maxRows || len(found.pages) >= maxPages || found.late {
			return found, nil
		}
	}
}

// union returns the shards of two lists, sorted and without duplicates.
func union(a, b []int) []int {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// notShown names the shards that are missing on a page.
func notShown(shards []int) []string {
	if len(shards) == 0 {
		return nil
	}
	return []string{upper(store.UnreachableText(shards)) + ": what is there is not shown."}
}

// upper returns the text with an initial capital.
func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// position returns the cursor of the list that points to a row; "" after the last one.
func (s *searchResult) position(row int) string {
	if row >= len(s.rows) {
		if s.next == "" {
			return ""
		}
		return s.next + ".0"
	}
	at := s.pages[0]
	for _, p := range s.pages {
		if p.from <= row {
			at = p
		}
	}
	return at.cursor + "." + strconv.Itoa(row-at.from)
}

// readPosition parses a cursor of the list: the queue's cursor, and how many rows to skip after
// it.
func readPosition(text string) (cursor string, skip int, err error) {
	if text == "" {
		return "", 0, nil
	}
	cursor, after, found := strings.Cut(text, ".")
	skip, err = strconv.Atoi(after)
	if !found || err != nil || skip < 0 || skip > 100*store.PageSize {
		return "", 0, store.ErrCursor
	}
	return cursor, skip, nil
}

// waitingSelection parses a selection, and checks that the visitor may read it.
func waitingSelection(v *visit, values url.Values) (inspect.Selection, []field, error) {
	var s inspect.Selection
	var filter []field
	if err := checkNames(values); err != nil {
		return s, nil, err
	}
	for i, to := range []*string{&s.App, &s.User, &s.Category, &s.CollapseKey, (*string)(&s.For)} {
		value, err := one(values, waitingFilter[i], push.MaxNameBytes)
		if err != nil {
			return s, nil, err
		}
		*to = value
		filter = append(filter, field{waitingFilter[i], value})
	}
	if s.For != "" && !slices.Contains(inspect.Causes, s.For) {
		return s, nil, errBadQuery
	}
	return s, filter, v.as.MayNarrow(s.App)
}

func (c *Console) waitingPage(ctx context.Context, v *visit) (page, error) {
	s, filter, err := waitingSelection(v, v.query)
	if err != nil {
		return page{}, err
	}
	at, err := one(v.query, "cursor", 64)
	if err != nil {
		return page{}, err
	}
	cursor, skip, err := readPosition(at)
	if err != nil {
		return page{}, err
	}
	enough := skip + rowsShown + 1
	if at == "" {
		enough = math.MaxInt // the sums need all rows
	}
	found, err := v.search(ctx, s, cursor, enough, searchPages, searchTime(ctx))
	if err != nil {
		return page{}, err
	}
	total := int64(-1)
	if counts, err := v.as.Counts(ctx); err != nil {
		return page{}, err
	} else if counts != nil {
		total = counts.Waiting()
	}
	view := viewOfWaiting(found, filter, at == "", skip, total)
	if at == "" && found.more() && s.All() && s.For == "" { // the sums would be incomplete
		o, err := v.as.Overview(ctx)
		if err != nil {
			return page{}, err
		}
		if o.NotRead(operate.PartWaits) == "" {
			view.All, view.Causes = true, sumsOfAll(words.OfOverview(o, nil).Waits)
		}
	}
	view.Apps, view.Categories, view.Without = v.as.Apps(), v.as.Categories(), notShown(found.unread)
	if found.causesUnread {
		view.Without = append(view.Without, upper(inspect.ErrCausesUnread.Error())+".")
	}
	return page{name: "waiting", title: "Waiting", data: view}, nil
}

// viewOfWaiting makes the page of the rows from the index from on. total is the number of all
// waiting notifications, -1 if unknown or not for this visitor.
func viewOfWaiting(found *searchResult, filter []field, first bool, from int, total int64) waitingView {
	here := address(Path+"waiting", filter...)
	v := waitingView{Filter: filter, App: filter[0].Value, First: first, Begin: here, Part: found.more()}
	for _, cause := range inspect.Causes {
		v.Fors = append(v.Fors, choice{string(cause), words.Cause(cause), string(cause) == filter[len(filter)-1].Value})
	}
	from = min(from, len(found.rows))
	to := min(len(found.rows), from+rowsShown)
	for _, q := range found.rows[from:to] {
		v.Rows = append(v.Rows, waitingRow{q, words.WaitsFor(q)})
	}
	slices.SortStableFunc(v.Rows, func(a, b waitingRow) int {
		return cmp.Or(a.Until.Compare(b.Until), a.Accepted.Compare(b.Accepted), cmp.Compare(a.ID, b.ID))
	})
	if next := found.position(to); next != "" {
		v.Next = address(here, field{"cursor", next})
	}
	if !first {
		return v
	}
	v.Answer = coverage(found, here != Path+"waiting", total)
	v.Causes = causesOf(found.rows, here)
	v.Most, v.Longest = usersOf(found.rows)
	return v
}

// coverage describes how many notifications were found, and whether these are all. total is as in
// viewOfWaiting.
func coverage(found *searchResult, selected bool, total int64) string {
	does, do, n := "waits", "wait", len(found.rows)
	if selected {
		does, do = "matches", "match"
	}
	switch {
	case found.next == "" && n == 0:
		return "Nothing " + does + "."
	case found.next == "":
		return words.Counted(n, does, do) + "."
	case selected || total < 0:
		return "Showing the first " + words.Counted(n, "that "+does, "that "+do) + "; there may be more."
	}
	if found.late {
		return "Showing the first " + words.Grouped(n) + " of " + words.Grouped(total) + ": the time to look for more was over."
	}
	return "Showing the first " + words.Grouped(n) + " of " + words.Grouped(total) + "."
}

// sumsOfAll converts the overview's sums.
func sumsOfAll(waits []words.Wait) (all []causeSum) {
	for _, w := range waits {
		all = append(all, causeSum{Text: w.Text, Count: w.Count, Oldest: w.Oldest, Narrow: address(Path+"waiting", field{"for", string(w.For)})})
	}
	return all
}

// causesOf counts the rows by cause, largest count first. here is the address of the list.
func causesOf(rows []inspect.Queued, here string) (all []causeSum) {
	by := map[string]*causeSum{}
	count := map[string]int64{}
	for _, q := range rows {
		text := words.WaitsFor(q)
		s := by[text]
		if s == nil {
			s = &causeSum{Text: text, Narrow: address(here, field{"for", string(q.For)}), Oldest: q.Accepted}
			by[text] = s
		}
		count[text]++
		s.Oldest, s.Soonest = earlier(s.Oldest, q.Accepted), earlier(s.Soonest, q.Until)
	}
	for _, t := range words.Tallies(count) {
		by[t.Name].Count = words.Grouped(t.Count)
		all = append(all, *by[t.Name])
	}
	return all[:min(len(all), topShown)]
}

// usersOf returns the users with the most waiting notifications, and the users with the oldest.
func usersOf(rows []inspect.Queued) (most, longest []userSum) {
	type key struct{ app, user string }
	by := map[key]*userSum{}
	for _, q := range rows {
		if q.User == "" {
			continue
		}
		k := key{q.App, q.User}
		if by[k] == nil {
			by[k] = &userSum{App: q.App, User: q.User, Narrow: address(Path+"waiting", field{"app", q.App}, field{"user", q.User})}
		}
		by[k].Count++
		by[k].Oldest = earlier(by[k].Oldest, q.Accepted)
	}
	var all []userSum
	for _, s := range by {
		all = append(all, *s)
	}
	name := func(a, b userSum) int { return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.App, b.App)) }
	slices.SortFunc(all, func(a, b userSum) int { return cmp.Or(cmp.Compare(b.Count, a.Count), name(a, b)) })
	most = slices.Clone(all[:min(len(all), topShown)])
	slices.SortFunc(all, func(a, b userSum) int { return cmp.Or(a.Oldest.Compare(b.Oldest), name(a, b)) })
	return most, all[:min(len(all), topShown)]
}

// earlier returns the earlier of two instants, ignoring a zero one.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// cancelWaiting cancels the selected notifications, or all notifications that match, once their
// number is confirmed.
func (c *Console) cancelWaiting(ctx context.Context, v *visit) (page, error) {
	s, filter, err := waitingSelection(v, v.form)
	if err != nil {
		return page{}, err
	}
	return actOnMany(ctx, v, bulkAction{
		title: "Cancel what waits", button: "Cancel", done: "cancelled", filter: filter, back: address(Path+"waiting", filter...), all: v.form.Get("all") == "yes",
		changed: "Where the number does not stay the same, pause these first.",
		sentence: func(n int) string {
			return words.Counted(n, "notification that waits is", "notifications that wait are") + " ended, and never sent. What waits behind moves up."
		},
		each: v.as.CancelEach,
		find: func() (refs []push.Ref, next string, unread []int, err error) {
			found, err := v.search(ctx, s, "", countMost, countMost, searchTime(ctx))
			if err != nil {
				return nil, "", nil, err
			}
			for _, q := range found.rows {
				refs = append(refs, q.Ref())
			}
			return refs, found.next, found.unread, nil
		},
	})
}

// allThat states that the action concerns all of a selection.
func allThat(filter []field, v *visit) string {
	selected := slices.ContainsFunc(filter, func(f field) bool { return f.Value != "" })
	switch {
	case selected:
		return "These are all that match:"
	case !v.as.SeesAll():
		return "These are all of the apps of your token."
	}
	return "These are all that there are, of every app."
}
