package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/pushpace/pushpace/throttle/limits"
)

// A limitsLogView is what limits-log.html shows.
type limitsLogView struct {
	Changes []changeRow
	Next    string // where the older ones are; "" for none
}

// A changeRow is a change of an override.
type changeRow struct {
	limits.Change
	Before, After string
	Edit          string
	// Undo says that it may be undone: nothing newer on the page is of its level.
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
	var all []limits.Change
	quotas := c.o.Quotas()
	more := true
	for range readsOfLimits {
		some, err := c.o.Overrides.Log(ctx, before, rowsOfLimits)
		if err != nil {
			return page{}, err
		}
		if more = len(some) == rowsOfLimits; len(some) > 0 {
			before = some[len(some)-1].Version
		}
		all = append(all, slices.DeleteFunc(some, func(change limits.Change) bool { return !v.who.SeesLevel(change.Level, quotas) })...)
		if !more || len(all) >= rowsOfLimits {
			break
		}
	}
	view := viewOfChanges(all, c.o.Limits.Now())
	if more {
		view.Next = limitsLogPath + "?" + url.Values{"before": {strconv.FormatInt(before, 10)}}.Encode()
	}
	return page{name: "limits-log", title: "Changes of limits", data: view}, nil
}

func viewOfChanges(changes []limits.Change, now time.Time) limitsLogView {
	view := limitsLogView{}
	newer := map[limits.Level]bool{}
	for _, change := range changes {
		_, undone := undoing(change, now)
		view.Changes = append(view.Changes, changeRow{change, overrideText(change.From), overrideText(change.To), editOf(change.Level), undone && !newer[change.Level]})
		newer[change.Level] = true
	}
	return view
}

// undoing returns the override that was there before the change, nil where none is to be
// put back, and whether there is anything to undo. One that has ended is not put back.
func undoing(change limits.Change, now time.Time) (to *limits.Override, any bool) {
	to = change.From
	if to != nil && !to.Until.IsZero() && !to.Until.After(now) {
		to = nil
	}
	return to, to != nil || change.To != nil
}

var (
	errNoChange = &fault{http.StatusNotFound, "There is no such change", "It is none of those that are kept."}
	errNoUndo   = &fault{http.StatusConflict, "Nothing to undo", "What was there before has ended."}
	errNewer    = &fault{http.StatusConflict, "It has changed since", "Another change of these limits came after this one. Nothing was changed: the log says what is there now."}
)

// undoChange puts back what was there before a change, if nothing has changed since.
func (c *Console) undoChange(ctx context.Context, v *visit) (page, error) {
	version, err := strconv.ParseInt(v.form.Get("version"), 10, 64)
	if err != nil || version < 1 {
		return page{}, errBadForm
	}
	found, err := c.o.Overrides.Log(ctx, version+1, 1)
	if err != nil {
		return page{}, err
	}
	if len(found) == 0 || found[0].Version != version || !v.who.SeesLevel(found[0].Level, c.o.Quotas()) {
		return page{}, errNoChange
	}
	change := found[0]
	if err := v.who.OwnsLevel(change.Level, c.o.Quotas()); err != nil {
		return page{}, err
	}
	to, any := undoing(change, c.o.Limits.Now())
	if !any {
		return page{}, errNoUndo
	}
	there, err := c.o.Overrides.Get(ctx, change.Level)
	if err != nil {
		return page{}, err
	}
	over := int64(0)
	if change.To != nil {
		over = version
	}
	if there != nil && there.Version != over || there == nil && over != 0 {
		return page{}, errNewer
	}
	if !v.confirmed() {
		return confirm(v, "Undo a change", undoConfirmation(change, to)), nil
	}
	if to != nil {
		restored := *to
		restored.By = v.who.Name
		err = c.o.Overrides.Set(ctx, restored, over)
	} else {
		_, err = c.o.Overrides.Unset(ctx, change.Level, v.who.Name, over)
	}
	if errors.Is(err, limits.ErrOvertaken) {
		return page{}, errNewer
	}
	if err != nil {
		return page{}, err
	}
	c.log.Info("a change of a limit is undone", "by", v.who.Name, "remote", v.RemoteAddr)
	return page{to: limitsLogPath + "?done=limit-undone"}, nil
}

func undoConfirmation(change limits.Change, to *limits.Override) confirmation {
	sentence := "What was there before the change is put back, and in force within a second."
	switch {
	case to == nil && change.From != nil:
		sentence = "What was there before the change has ended by now: the override is removed."
	case to == nil:
		sentence = "There was no override before the change: it is removed."
	}
	return confirmation{
		Sentences: []string{sentence},
		Facts: []field{{"Of", levelText(change.Level)}, {"Changed by", change.By}, {"Changed at", stamp(change.At)},
			{"There now", overrideText(change.To)}, {"Then", overrideText(to)}},
		Button: "Undo it", Back: limitsLogPath,
	}
}
