package console

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/throttle/limits"
)

// A limitsLogView is the data of limits-log.html.
type limitsLogView struct {
	Changes []changeRow
	Next    string // the address of the older changes; "" without any
}

// A changeRow is a change of an override.
type changeRow struct {
	limits.Change
	Before, After words.Sentence
	Edit          string
	// Undo means that the change can be undone: the page has no newer change of the same level.
	Undo bool
}

func (c *Console) limitsLogPage(ctx context.Context, v *visit) (page, error) {
	before := int64(0)
	if text := v.query.Get("before"); text != "" {
		var err error
		if before, err = strconv.ParseInt(text, 10, 64); err != nil || before < 1 {
			return page{}, errBadQuery
		}
	}
	all, err := v.as.LimitsLog(ctx, before, rowsOfLimits)
	if err != nil {
		return page{}, err
	}
	view := viewOfChanges(all, v.as.Now())
	if n := len(all); n == rowsOfLimits {
		view.Next = limitsLogPath + "?" + url.Values{"before": {strconv.FormatInt(all[n-1].Version, 10)}}.Encode()
	}
	return page{name: "limits-log", title: "Changes of limits", data: view}, nil
}

func viewOfChanges(changes []limits.Change, now time.Time) limitsLogView {
	view := limitsLogView{}
	newer := map[limits.Level]bool{}
	for _, change := range changes {
		_, undone := operate.Undoing(change, now)
		view.Changes = append(view.Changes, changeRow{change, words.Override(change.From), words.Override(change.To), editOf(change.Level), undone && !newer[change.Level]})
		newer[change.Level] = true
	}
	return view
}

// undoChange restores the override before a change, if the level has not changed since.
func (c *Console) undoChange(ctx context.Context, v *visit) (page, error) {
	version, err := strconv.ParseInt(v.form.Get("version"), 10, 64)
	if err != nil || version < 1 {
		return page{}, errBadForm
	}
	if !v.confirmed() {
		undo, err := v.as.UndoOf(ctx, version)
		if err != nil {
			return page{}, err
		}
		return confirm(v, "Undo a change", undoConfirmation(undo)), nil
	}
	if err := v.as.UndoLimit(ctx, version); err != nil {
		return page{}, err
	}
	return page{to: limitsLogPath + "?done=limit-undone"}, nil
}

func undoConfirmation(u *operate.Undo) confirmation {
	what := "override"
	if u.Mute {
		what = "mute"
	}
	sentence := "The limit from before the change is in force again within a second."
	switch {
	case u.Back == nil && u.From != nil:
		sentence = "The limit before the change has expired: the " + what + " is removed."
	case u.Back == nil:
		sentence = "There was no " + what + " before the change: it is removed."
	}
	return confirmation{
		Sentences: []string{sentence},
		Facts: []fact{{"Of", words.Say(words.Level(u.Level))}, {"Changed by", words.Say(u.By)}, {"Changed at", words.Say(u.At)},
			{"There now", words.Override(u.To)}, {"Then", words.Override(u.Back)}},
		Button: "Undo it", Back: limitsLogPath,
	}
}
