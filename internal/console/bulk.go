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
)

const (
	// rowsShown is how many entries a list has on a page, and as many can be selected.
	rowsShown = 50
	// lookTime is for how long a page looks for what it shows, and countTime for how long
	// what is to be acted on is counted.
	lookTime  = 400 * time.Millisecond
	countTime = 3 * time.Second
	// countMost bounds what is counted, and with it what one form acts on.
	countMost = 20_000
)

var (
	errNoneSelected = &fault{http.StatusConflict, "Nothing is selected", "Nothing was done: nothing is selected, or nothing of it is left."}
	errTooManyIDs   = &fault{http.StatusBadRequest, "Too many at once", "Nothing was done: select fewer, or all that match."}
	errNotCounted   = &fault{http.StatusConflict, "Too many to count", "Nothing was done: there are more than can be counted while you wait. Select fewer, or take the command line, which takes its time: pushpace cancel --all, pushpace dead requeue --all."}
)

// selectedIDs returns those that were selected on a page, each once.
func selectedIDs(form url.Values) ([]string, error) {
	var ids []string
	for _, id := range form["id"] {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
		if len(ids) > operate.MostIDs {
			return nil, errTooManyIDs
		}
	}
	return ids, nil
}

// bulk does the same to each of the IDs, and returns where that leads, with what was
// done. The error is what kept it from all of them.
func bulk(ctx context.Context, ids []string, done, back string, each func(ctx context.Context, ids []string) []error) (page, error) {
	became, err := operate.InPages(ctx, ids, each)
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

// sentences returns each name as a sentence.
func sentences(names []string) []words.Sentence {
	all := make([]words.Sentence, len(names))
	for i, name := range names {
		all[i] = words.Say(words.Printable(name))
	}
	return all
}
