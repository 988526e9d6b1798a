package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/push"
)

const (
	// rowsShown bounds the entries of a list on a page, which can all be selected.
	rowsShown = 50
	// countMost bounds the entries that a page counts, and that one form acts on.
	countMost = 20_000
)

// searchTime returns how long a page may search for its entries, or count them for an action: half
// of the time left in ctx.
func searchTime(ctx context.Context) time.Duration {
	ends, _ := ctx.Deadline() // every page has one
	return time.Until(ends) / 2
}

var (
	errNoneSelected = &fault{http.StatusConflict, "Nothing is selected", "Nothing was done: nothing is selected, or the selected entries are gone."}
	errTooManyIDs   = &fault{http.StatusBadRequest, "Too many at once", "Nothing was done: select fewer entries, or all that match."}
	errNotAnswered  = &fault{http.StatusServiceUnavailable, "Not all shards answer", "Nothing was done: some shards of Redis do not answer, so their entries cannot be counted. Try again when they answer."}
	errNotCounted   = &fault{http.StatusConflict, "Too many to count", "Nothing was done: there are too many entries to count while you wait. Select fewer, or use the command line: pushpace cancel --all, pushpace dead requeue --all."}
)

// selectable returns a query that identifies a selectable entry; empty values are left out.
func selectable(id, app, user string) string {
	values := url.Values{"id": {id}}
	for name, value := range map[string]string{"app": app, "user": user} {
		if value != "" {
			values.Set(name, value)
		}
	}
	return values.Encode()
}

// selectedOf returns the entries selected on a page, without duplicates.
func selectedOf(form url.Values) ([]push.Ref, error) {
	var refs []push.Ref
	for _, text := range form["ref"] {
		values, err := url.ParseQuery(text)
		if err != nil || unknownName(values, with(refFields, "id")) != "" {
			return nil, errBadForm
		}
		ref := push.Ref{ID: values.Get("id"), App: values.Get("app"), User: values.Get("user")}
		if !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
		if len(refs) > operate.MostIDs {
			return nil, errTooManyIDs
		}
	}
	return refs, nil
}

// A bulkAction is an action of a form on the selected entries, or on all that match the filter.
type bulkAction struct {
	title, button, done string
	filter              []field
	back                string
	all                 bool
	sentence            func(n int) string // describes the action on n entries
	changed             string             // advice if the number of entries changes; "" for none
	// find returns the entries that match, the cursor of the rest, and the shards that did not
	// answer.
	find func() (refs []push.Ref, next string, unread []int, err error)
	each func(ctx context.Context, refs []push.Ref) []error
}

// actOnMany runs the action once the number of entries is confirmed.
func actOnMany(ctx context.Context, v *visit, m bulkAction) (page, error) {
	refs, err := selectedOf(v.form)
	if m.all && err == nil {
		var next string
		var unread []int
		switch refs, next, unread, err = m.find(); {
		case err != nil:
		case next != "":
			return page{}, errNotCounted
		case len(unread) > 0:
			return page{}, errNotAnswered
		}
	}
	switch {
	case err != nil:
		return page{}, err
	case len(refs) == 0:
		return page{}, errNoneSelected
	case v.expects(len(refs)):
		return bulk(ctx, refs, m.done, m.back, m.each)
	}
	asked := confirmation{Sentences: []string{m.sentence(len(refs))}, Things: sentences(refs), Expect: len(refs), Button: m.button + " " + words.Grouped(len(refs)), Back: m.back}
	if m.all {
		asked.Things, asked.Facts = nil, underLabels(m.filter)
		asked.Sentences = append(asked.Sentences, allThat(m.filter, v))
		if m.changed != "" && v.confirmed() {
			asked.Sentences = append(asked.Sentences, m.changed)
		}
	}
	return confirm(v, m.title, asked), nil
}

// bulk runs the action on each entry, and returns a redirect with the number done. It returns an
// error only if nothing was done.
func bulk(ctx context.Context, refs []push.Ref, done, back string, each func(ctx context.Context, refs []push.Ref) []error) (page, error) {
	became, err := operate.InPages(ctx, refs, each)
	if became.Done == 0 && err != nil {
		return page{}, err
	}
	if became.Done < became.Selected {
		done += "-in-part"
	}
	return page{to: address(back, field{"done", done}, field{"n", strconv.Itoa(became.Done)})}, nil
}

// address returns a path below the console's, with the non-empty fields as its query. path may
// have a query already.
func address(path string, query ...field) string {
	at, err := url.Parse(path)
	if err != nil { // paths are constants of this package
		return Path
	}
	values := at.Query()
	for _, f := range query {
		if f.Value != "" {
			values.Set(f.Name, f.Value)
		}
	}
	at.RawQuery = values.Encode()
	return at.String()
}

// one returns the value of a parameter that may be given once; most bounds its bytes.
func one(values url.Values, name string, most int) (string, error) {
	all := values[name]
	if len(all) == 0 {
		return "", nil
	}
	if len(all) > 1 || len(all[0]) > most {
		return "", errBadQuery
	}
	return all[0], nil
}

// labels are the parameters' names on pages.
var labels = map[string]string{"app": "App", "user": "User", "category": "Category", "collapse_key": "Collapse key", "reason": "Reason", "since": "Ended within", "platform": "Platform", "for": "Waits for"}

// underLabels returns the fields with their labels.
func underLabels(fields []field) []fact {
	all := make([]fact, len(fields))
	for i, f := range fields {
		all[i] = fact{labels[f.Name], words.Say(f.Value)}
	}
	return all
}

// sentences returns each ID as a sentence, with its user and app where known.
func sentences(refs []push.Ref) []words.Sentence {
	all := make([]words.Sentence, len(refs))
	for i, ref := range refs {
		text := words.Printable(ref.ID)
		if ref.User != "" {
			text += " (" + words.Printable(ref.User) + " of " + words.Printable(ref.App) + ")"
		}
		all[i] = words.Say(text)
	}
	return all
}
