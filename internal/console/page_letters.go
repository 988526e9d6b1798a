package console

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/base/duration"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/push"
)

const (
	// lettersMost bounds the dead letters that a page reads, in steps of lettersStep.
	lettersMost = 5000
	lettersStep = 100
	// longestID is the longest ID, in bytes, of a letter with a page of its own. A malformed job
	// may have any ID.
	longestID = 256
)

// letterFilter are the parameters that select dead letters.
var letterFilter = []string{"app", "category", "reason", "since"}

// ages are the choices of the parameter since, and the age groups that letters are counted in.
var ages = []struct {
	Since, Text string
	within      time.Duration
}{{"1h", "within an hour", time.Hour}, {"24h", "within a day", 24 * time.Hour}, {"168h", "within a week", 7 * 24 * time.Hour}}

// A lettersView is the data of letters.html.
type lettersView struct {
	Filter []field
	App    string
	// Categories are the categories with limits of their own.
	Apps, Categories []string
	Answer           string
	Reasons          []letterSum
	ByApp            []letterSum
	Ages             []letterSum
	Rows             []letterRow
	Next             string
	Begin            string
	Beginning        bool
	// Without lists the parts that could not be read.
	Without []string
}

// A letterSum counts the letters with the same value, and links to them.
type letterSum struct {
	Text   string
	Count  int64
	Narrow string
	// Means and Do explain a reason; "" if it has no explanation.
	Means, Do string
}

type letterRow struct {
	*store.Letter
	Platforms string
	// Known means that the letter has a page.
	Known bool
}

// letterSelected parses a selection, and checks that the visitor may read it.
func letterSelected(v *visit, values url.Values) (operate.LetterSelection, []field, error) {
	var s operate.LetterSelection
	var since string
	var filter []field
	if err := checkNames(values); err != nil {
		return s, nil, err
	}
	for i, to := range []*string{&s.App, &s.Category, &s.Reason, &since} {
		value, err := one(values, letterFilter[i], push.MaxNameBytes)
		if err != nil {
			return s, nil, err
		}
		*to = value
		filter = append(filter, field{letterFilter[i], value})
	}
	if since != "" {
		age, err := duration.Parse(since)
		if err != nil || age <= 0 {
			return s, nil, errBadQuery
		}
		s.Since = age
	}
	return s, filter, v.as.MayNarrow(s.App)
}

// searchLetters returns the dead letters that match s from cursor on, without their jobs; how many
// were read; the cursor of the rest, "" if there is none; and the shards that did not answer.
func (v *visit) searchLetters(ctx context.Context, s operate.LetterSelection, cursor string, most int, within time.Duration) (found []*store.Letter, looked int, next string, unread []int, err error) {
	now := time.Now()
	seen := map[push.Ref]bool{}
	for next = cursor; ; {
		some, err := v.as.Letters(ctx, next, lettersStep)
		if err != nil {
			return nil, 0, "", nil, err
		}
		looked, next, unread = looked+some.Looked, some.Next, union(unread, some.Unread)
		for i := range some.Letters {
			if l := &some.Letters[i]; !seen[l.Ref()] && s.Matches(l, now) {
				seen[l.Ref()] = true
				found = append(found, l)
			}
		}
		if next == "" || looked >= most || time.Since(now) > within {
			slices.SortFunc(found, func(a, b *store.Letter) int { return cmp.Or(b.At.Compare(a.At), strings.Compare(a.ID, b.ID)) })
			return found, looked, next, unread, nil
		}
	}
}

func (c *Console) lettersPage(ctx context.Context, v *visit) (page, error) {
	s, filter, err := letterSelected(v, v.query)
	if err != nil {
		return page{}, err
	}
	cursor, err := one(v.query, "cursor", 64)
	if err != nil {
		return page{}, err
	}
	skip := 0
	if text := v.query.Get("skip"); text != "" {
		if skip, err = strconv.Atoi(text); err != nil || skip < 0 || skip > 2*lettersMost {
			return page{}, errBadQuery
		}
	}
	found, looked, next, unread, err := v.searchLetters(ctx, s, cursor, lettersMost, searchTime(ctx))
	if err != nil {
		return page{}, err
	}
	total := int64(-1)
	if counts, err := v.as.Counts(ctx); err != nil {
		return page{}, err
	} else if counts != nil {
		total = counts.Letters
	}
	view := viewOfLetters(found, looked, filter, cursor, next, skip, total, time.Now())
	view.Apps, view.Categories, view.Without = v.as.Apps(), v.as.Categories(), notShown(unread)
	return page{name: "letters", title: "Dead letters", data: view}, nil
}

// viewOfLetters makes the page of the letters found, newest first.
func viewOfLetters(found []*store.Letter, looked int, filter []field, cursor, next string, skip int, total int64, now time.Time) lettersView {
	here := address(Path+"dead-letters", filter...)
	v := lettersView{Filter: filter, App: filter[0].Value, Begin: here, Beginning: cursor == "" && skip == 0}
	v.Answer = words.Counted(len(found), "dead letter", "dead letters") + "."
	switch {
	case len(found) == 0 && next == "" && cursor == "":
		v.Answer = "No dead letters."
	case (next != "" || cursor != "") && total >= 0:
		v.Answer = words.Counted(len(found), "dead letter matches", "dead letters match") + " of the " + words.Grouped(looked) + " looked at here; " + words.Grouped(total) + " are kept in all."
	case next != "" || cursor != "":
		v.Answer = words.Counted(len(found), "dead letter", "dead letters") + " here; there may be more."
	}
	v.Reasons = sumsOf(found, here, "reason", func(l *store.Letter) string { return l.Reason })
	for i := range v.Reasons {
		sum := &v.Reasons[i]
		one := found[slices.IndexFunc(found, func(l *store.Letter) bool { return l.Reason == sum.Text })]
		sum.Means, sum.Do = words.Reason(one.State, one.Reason)
	}
	v.ByApp = sumsOf(found, here, "app", func(l *store.Letter) string { return l.App })
	for _, age := range ages {
		n := 0
		for _, l := range found {
			if now.Sub(l.At) <= age.within {
				n++
			}
		}
		v.Ages = append(v.Ages, letterSum{Text: age.Text, Count: int64(n), Narrow: address(here, field{"since", age.Since})})
	}
	from := min(skip, len(found))
	to := min(len(found), from+rowsShown)
	for _, l := range found[from:to] {
		v.Rows = append(v.Rows, letterRow{l, words.Platforms(l.Outcomes), hasPage(l.ID)})
	}
	switch {
	case to < len(found):
		v.Next = address(here, field{"cursor", cursor}, field{"skip", strconv.Itoa(to)})
	case next != "":
		v.Next = address(here, field{"cursor", next})
	}
	return v
}

// hasPage reports whether an address can name a letter or notification with that ID.
func hasPage(id string) bool { return id != "" && len(id) <= longestID && id != "." && id != ".." }

// sumsOf counts the letters by a property, largest count first.
func sumsOf(found []*store.Letter, here, name string, of func(*store.Letter) string) []letterSum {
	by := map[string]int64{}
	for _, l := range found {
		by[of(l)]++
	}
	var all []letterSum
	for _, t := range words.Tallies(by) {
		all = append(all, letterSum{Text: t.Name, Count: t.Count, Narrow: address(here, field{name, t.Name})})
	}
	return all[:min(len(all), topShown)]
}

// A letterView is the data of letter.html.
type letterView struct {
	*store.Letter
	Targets []targetView
	Payload payload
	// Means and Do explain the reason; "" if it has no explanation.
	Means, Do string
	// Here is the address of the letter's page, and History that of its notification; "" without
	// a page.
	Here, History string
}

func (c *Console) letterPage(ctx context.Context, v *visit) (page, error) {
	l, err := letterOf(ctx, v)
	if err != nil {
		return page{}, err
	}
	view := viewOfLetter(l)
	view.Here = refTo("dead-letters", l.Ref())
	if l.State != store.Malformed {
		view.History = refTo("notifications", l.Ref())
	}
	return page{name: "letter", title: "Dead letter " + words.Printable(l.ID), data: view}, nil
}

// letterOf returns the letter that the address names. The query may name its app and user.
func letterOf(ctx context.Context, v *visit) (*store.Letter, error) {
	if !hasPage(v.PathValue("id")) {
		return nil, store.ErrNoLetter
	}
	found, err := v.as.Letter(ctx, v.ref())
	if err != nil {
		return nil, err
	}
	found.FillOwner(push.Contents)
	return found.Letter, nil
}

func viewOfLetter(l *store.Letter) letterView {
	v := letterView{Letter: l, Payload: payloadOfJob(l.Job)}
	v.Means, v.Do = words.Reason(l.State, l.Reason)
	v.Targets = targetsOf(l.Outcomes, l.State)
	return v
}

// A letterAct is an action on one dead letter or on several.
type letterAct struct {
	done             string
	button, sentence string
	do               func(as *operate.Operator, ctx context.Context, ref push.Ref) error
	each             func(as *operate.Operator, ctx context.Context, refs []push.Ref) []error
}

var letterActs = map[string]letterAct{
	"requeue": {"requeued", "Requeue", "put back on the queue, with a new budget of attempts.",
		(*operate.Operator).Requeue, (*operate.Operator).RequeueEach},
	"purge": {"purged", "Purge", "deleted for good. The notification's state stays counted.",
		(*operate.Operator).Purge, (*operate.Operator).PurgeEach},
}

// actOf returns the form's action, and whether it concerns all letters that match the filter.
func actOf(v *visit) (act letterAct, all bool, err error) {
	name, all := strings.CutSuffix(v.form.Get("do"), "-all")
	act, known := letterActs[name]
	if !known || len(v.form["do"]) > 1 {
		return act, all, errBadForm
	}
	return act, all, nil
}

// actOnLetters requeues or purges the selected letters, or all letters that match, once their
// number is confirmed.
func (c *Console) actOnLetters(ctx context.Context, v *visit) (page, error) {
	s, filter, err := letterSelected(v, v.form)
	if err != nil {
		return page{}, err
	}
	act, all, err := actOf(v)
	if err != nil {
		return page{}, err
	}
	return actOnMany(ctx, v, bulkAction{
		title: act.button + " dead letters", button: act.button, done: act.done, filter: filter, back: address(Path+"dead-letters", filter...), all: all,
		sentence: func(n int) string { return words.Counted(n, "dead letter is ", "dead letters are ") + act.sentence },
		each:     func(ctx context.Context, refs []push.Ref) []error { return act.each(v.as, ctx, refs) },
		find: func() (refs []push.Ref, next string, unread []int, err error) {
			found, _, next, unread, err := v.searchLetters(ctx, s, "", countMost, searchTime(ctx))
			for _, l := range found {
				refs = append(refs, l.Ref())
			}
			return refs, next, unread, err
		},
	})
}

// actOnLetter requeues or purges one letter, once the action is confirmed.
func (c *Console) actOnLetter(ctx context.Context, v *visit) (page, error) {
	act, _, err := actOf(v)
	if err != nil {
		return page{}, err
	}
	l, err := letterOf(ctx, v)
	if err != nil {
		return page{}, err
	}
	if !v.confirmed() {
		return confirm(v, act.button+" a dead letter", confirmation{
			Sentences: []string{"1 dead letter is " + act.sentence},
			Facts:     texts("ID", l.ID, "App", l.App, "User", l.User, "Category", l.Category, "Reason", l.Reason),
			Button:    act.button + " it", Back: refTo("dead-letters", l.Ref()),
		}), nil
	}
	if err := act.do(v.as, ctx, l.Ref()); err != nil {
		return page{}, err
	}
	to := Path + "dead-letters"
	if act.done == "requeued" && l.State != store.Malformed {
		to = refTo("notifications", l.Ref())
	}
	return page{to: address(to, field{"done", act.done}, field{"n", "1"})}, nil
}
