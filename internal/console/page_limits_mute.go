package console

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/throttle/limits"
)

const mutePath = limitsPath + "/mute"

// A muteView is the part of a level's page about mutes.
type muteView struct {
	There []limits.EffectiveMute // the mutes that cover the whole level
	Here  bool                   // one of these mutes is set at exactly this level
	Form  limitForm
}

func muteViewOf(at limits.Level, there []limits.EffectiveMute) muteView {
	at.Mute = true
	return muteView{There: there, Here: slices.ContainsFunc(there, func(m limits.EffectiveMute) bool { return m.Level == at })}
}

// changeMute sets a mute once the visitor has confirmed how many waiting notifications it ends,
// or removes the mute of exactly the level.
func (c *Console) changeMute(ctx context.Context, v *visit) (page, error) {
	view, err := editing(ctx, v, v.form)
	if view == nil {
		return page{}, err
	}
	at := view.Level
	at.Mute = true
	back := editOf(view.Level)
	switch v.form.Get("do") {
	case "mute":
	case "unmute":
		err := v.as.UnsetLimit(ctx, at)
		if err != nil && !errors.Is(err, operate.ErrNoOverride) {
			return page{}, err
		}
		return page{to: address(back, field{"done", "unmuted"})}, nil
	default:
		return page{}, errBadForm
	}
	view.Mute.Form = formOf(v.form)
	mute, err := view.Mute.Form.Read(at, v.as.Now())
	if err != nil {
		return view.muteRefused(err)
	}
	asked, n, err := muteConfirmation(ctx, v, mute)
	if err != nil {
		return page{}, err
	}
	if !v.confirmed() || asked.Expect > 0 && !v.expects(n) {
		return confirm(v, "Mute", asked), nil
	}
	if _, err = v.as.SetLimit(ctx, mute); err != nil {
		return view.muteRefused(err)
	}
	return page{to: address(back, field{"done", "muted"})}, nil
}

// muteRefused is refused for the form of a mute.
func (view *editView) muteRefused(err error) (page, error) {
	for _, texts := range wrongWith(err) {
		view.Faults = map[string][]string{"mute": append(view.Faults["mute"], texts...)}
	}
	if len(view.Faults) > 0 {
		return view.page(http.StatusBadRequest), nil
	}
	return page{}, err
}

// muteConfirmation describes the mute and counts the waiting notifications that it ends. For more
// than one user the count must be exact.
func muteConfirmation(ctx context.Context, v *visit, mute limits.Override) (asked confirmation, n int, err error) {
	found, err := v.search(ctx, inspect.Selection{App: mute.App, User: mute.User, Category: mute.Category, Mutable: !mute.All}, "", countMost, countMost, searchTime(ctx))
	if err != nil {
		return asked, 0, err
	}
	n = len(found.rows)
	ends := words.Counted(n, "notification that waits ends", "notifications that wait end")
	if found.more() {
		if mute.User == "" {
			return asked, n, errNotCounted
		}
		ends = "At least " + ends
	}
	passes := "Critical notifications, and those of exempt categories, pass."
	if mute.All {
		passes = "Critical notifications, and those of exempt categories, end too."
	}
	asked = confirmation{
		Sentences: []string{"New notifications end muted, and never reach their users.", ends + " muted.", passes},
		Facts:     []fact{{"Of", words.Say(words.Level(mute.Level))}, {"Ends", words.End(mute.Until)}},
		Button:    "Mute", Back: editOf(mute.Level),
	}
	if mute.User == "" {
		asked.Expect = n
	}
	return asked, n, nil
}
