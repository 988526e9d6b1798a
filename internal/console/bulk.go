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
	// rowsShown is how many entries a list has on a page, and as many can be selected.
	rowsShown = 50
	// countMost bounds what is counted, and with it what one form acts on.
	countMost = 20_000
)

// lookTime is for how long a page looks for what it shows, or what is to be acted on is
// counted: half of the time that is left for it.
func lookTime(ctx context.Context) time.Duration {
	ends, _ := ctx.Deadline() // which every page has
	return time.Until(ends) / 2
}

var (
	errNoneSelected = &fault{http.StatusConflict, "Nothing is selected", "Nothing was done: nothing is selected, or nothing of it is left."}
	errTooManyIDs   = &fault{http.StatusBadRequest, "Too many at once", "Nothing was done: select fewer, or all that match."}
	errNotAnswered  = &fault{http.StatusServiceUnavailable, "Not all answer", "Nothing was done: some shards of Redis do not answer, and what is there is not counted. Come again when they do."}
	errNotCounted   = &fault{http.StatusConflict, "Too many to count", "Nothing was done: there are more than can be counted while you wait. Select fewer, or take the command line, which takes its time: pushpace cancel --all, pushpace dead requeue --all."}
)

// selectable is what names one that can be selected, as a query; what is "" is left out.
func selectable(id, app, user string) string {
	values := url.Values{"id": {id}}
	for name, value := range map[string]string{"app": app, "user": user} {
		if value != "" {
			values.Set(name, value)
		}
	}
	return values.Encode()
}

// selectedOf returns those that were selected on a page, each once.
func selectedOf(form url.Values) ([]push.Ref, error) {
	var refs []push.Ref
	for _, text := range form["ref"] {
		values, err := url.ParseQuery(text)
		if err != nil || strange(values, with(refFields, "id")) != "" {
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

// A many is what a form does to those that are selected, or to all that match.
type many struct {
	title, button, done string
	filter              []field
	back                string
	all                 bool
	sentence            func(n int) string // what is done to so many
	changed             string             // what helps where their number changes; "" for nothing
	// find returns all that match, where the rest begins, and the shards that did not answer.
	find func() (refs []push.Ref, next string, unread []int, err error)
	each func(ctx context.Context, refs []push.Ref) []error
}

// actOnMany does it, once the number is confirmed.
func actOnMany(ctx context.Context, v *visit, m many) (page, error) {
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

// bulk does the same to each of them, and returns where that leads, with what was
// done. The error is what kept it from all of them.
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

// address is a path below the console's with a query of those fields that are not "";
// path may have a query already.
func address(path string, query ...field) string {
	at, err := url.Parse(path)
	if err != nil { // it is one of ours
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

// one returns the value of a name that may be given once, of at most so many bytes.
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

// labels are what parameters are called on pages.
var labels = map[string]string{"app": "App", "user": "User", "category": "Category", "collapse_key": "Collapse key", "reason": "Reason", "since": "Ended within", "platform": "Platform", "for": "Waits for"}

// underLabels are the fields under what they are called.
func underLabels(fields []field) []fact {
	all := make([]fact, len(fields))
	for i, f := range fields {
		all[i] = fact{labels[f.Name], words.Say(f.Value)}
	}
	return all
}

// sentences returns the ID of each as a sentence, and whose it is where that is known.
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
