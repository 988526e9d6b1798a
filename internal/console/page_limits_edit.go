package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// levelFields name the level of a form or an address. overrideFields are the fields that formOf
// reads.
var (
	levelFields    = []string{"app", "user", "category", "quota"}
	overrideFields = []string{"min_gap", "rates", "quiet_hours", "exempt", "all", "for", "until", "over"}
)

const (
	// previewWithin bounds a preview with the reads around it.
	previewWithin = operate.PreviewBudget + time.Second
	// usualEnd is the default duration of an override.
	usualEnd = "2h"
	// mostMoves bounds the moves that a preview lists.
	mostMoves = 100
)

// An editView is the data of limits-edit.html.
type editView struct {
	limits.Level
	Name string
	// General and Own are the policies in force; Own is the category's, nil for none.
	General inForceView
	Own     *inForceView
	// Existing is the override of exactly this level; nil without one.
	Existing *overrideRow
	Form     limitForm
	Mute     muteView
	// Faults are the form's errors, by field.
	Faults map[string][]string
	// Overtaken means that the override has changed since the form was made.
	Overtaken bool
	// Preview is the preview; nil if none was requested.
	Preview *operate.Preview
	Says    []string // the preview in sentences
	// Now is the policy in force at the level, and Then the policy that the form would set.
	Now, Then inForceView
	Moves     []operate.Move
	More      int64 // moves that are not listed
}

// An endView is the data of a form's fields that a policy and a mute share.
type endView struct {
	limitForm
	ID     string // begins the IDs of the form's fields
	Faults []string
}

// EndOf returns the data of the template "end".
func (editView) EndOf(id string, form limitForm, faults []string) endView {
	return endView{form, id, faults}
}

// Lengths are the durations that an override can have.
func (endView) Lengths() []string { return lengths }

// An inForceView is a policy in force.
type inForceView struct {
	Policy, Source string
	Until          time.Time
	// Nights are the next quiet hours.
	Nights []words.Sentence
}

func inForceOf(p limits.EffectivePolicy, at limits.Level) inForceView {
	return inForceView{p.Policy.String(), p.Source.Words(), p.Until, words.Nights(p.Policy, at.App, at.User, time.Now())}
}

// A limitForm is the content of an override's form. Over is the version of the override that the
// form showed: a newer version is not overwritten.
type limitForm struct {
	operate.Draft
	Over string
}

// formOf reads a form: rates are separated by white space or commas, and windows by semicolons.
func formOf(values url.Values) limitForm {
	f := limitForm{Over: values.Get("over")}
	f.Policy.Exempt, f.All = values.Has("exempt"), values.Has("all")
	f.MinGap = strings.TrimSpace(values.Get("min_gap"))
	f.Rates = strings.FieldsFunc(values.Get("rates"), func(r rune) bool { return strings.ContainsRune(" ,\n\r\t", r) })
	f.For, f.Until = values.Get("for"), inRFC3339(values.Get("until"))
	if text := strings.TrimSpace(values.Get("quiet_hours")); text != "" {
		for window := range strings.SplitSeq(text, ";") {
			f.Quiet = append(f.Quiet, strings.TrimSpace(window))
		}
	}
	return f
}

// RatesField and QuietField are the texts that formOf parses.
func (f limitForm) RatesField() string { return strings.Join(f.Rates, " ") }
func (f limitForm) QuietField() string { return strings.Join(f.Quiet, "; ") }

// UntilField returns Until in the format of a browser's datetime field, in UTC; "" if Until is no
// valid instant.
func (f limitForm) UntilField() string {
	at, wrong := operate.Ending("", f.Until, time.Time{})
	if at.IsZero() || wrong != nil {
		return ""
	}
	return at.UTC().Format("2006-01-02T15:04:05")
}

// formOver returns a form with the values of the override. Without an override, it has the values
// of the policy in force.
func formOver(there *limits.Override, inForce throttle.Policy) limitForm {
	if there != nil {
		return limitForm{operate.DraftOf(*there), strconv.FormatInt(there.Version, 10)}
	}
	f := limitForm{operate.DraftOf(limits.Override{Policy: inForce}), "0"}
	f.For = usualEnd
	return f
}

// wrongWith returns the problems of an override by form field; an empty map for any other error.
func wrongWith(err error) map[string][]string {
	var (
		all     throttle.Faults
		unknown *operate.UnknownError
	)
	wrong := map[string][]string{}
	switch {
	case errors.As(err, &unknown):
		wrong["policy"] = []string{unknown.Problem}
	case errors.As(err, &all):
		for _, f := range all {
			switch f.Field {
			case "min_gap", "rates", "quiet_hours", "until":
				wrong[f.Field] = append(wrong[f.Field], f.Problem)
			case "for":
				wrong["until"] = append(wrong["until"], f.Problem)
			default:
				wrong["policy"] = append(wrong["policy"], throttle.Faults{f}.Error())
			}
		}
	}
	return wrong
}

var errNoLevel = &fault{http.StatusBadRequest, "Whose limits?", "Name a user, a category, an app or several of these, or a quota."}

// levelOf parses the level that the values name.
func levelOf(values url.Values) (limits.Level, error) {
	if err := checkNames(values); err != nil {
		return limits.Level{}, err
	}
	l := limits.Level{App: values.Get("app"), User: values.Get("user"), Category: values.Get("category"), Quota: values.Get("quota")}
	for _, name := range []string{l.App, l.User, l.Category} {
		if name != "" && !push.ValidName(name) {
			return l, errBadQuery
		}
	}
	switch {
	case l == limits.Level{}:
		return l, errNoLevel
	case l.Quota != "" && l != limits.Level{Quota: l.Quota}, len(l.Quota) > maxPath:
		return l, errBadQuery
	}
	return l, nil
}

// editing returns the view of the level that the values name, with its form filled from the
// override or the policy in force. The view is also returned with an *operate.UnknownError.
func editing(ctx context.Context, v *visit, values url.Values) (*editView, error) {
	at, err := levelOf(values)
	if err != nil {
		return nil, err
	}
	found, err := v.as.Override(ctx, at)
	if found == nil {
		return nil, err
	}
	at = found.Level
	view := &editView{Level: at, Name: words.Level(at), General: inForceOf(found.General, at)}
	inForce := found.General.Policy
	if found.OfCategory != nil {
		inForce, view.Own = found.OfCategory.Policy, new(inForceOf(*found.OfCategory, at))
	}
	if at.Quota != "" {
		inForce = throttle.Policy{}
	}
	if there := found.Override; there != nil {
		view.Existing = &overrideRow{Override: *there, Policy: words.Limits(there)}
	}
	view.Form, view.Mute = formOver(found.Override, inForce), muteViewOf(at, found.Mutes)
	return view, err
}

func (view *editView) page(status int) page {
	return page{name: "limits-edit", title: "Limits of " + view.Name, status: status, data: view}
}

func (c *Console) editLimitsPage(ctx context.Context, v *visit) (page, error) {
	view, err := editing(ctx, v, v.query)
	if err == errNoLevel {
		return page{to: limitsPath}, nil
	}
	if err != nil {
		return page{}, err
	}
	return view.page(http.StatusOK), nil
}

// previewLimitsPage shows the effect of the form in the address, and fills the form from it.
func (c *Console) previewLimitsPage(ctx context.Context, v *visit) (page, error) {
	view, err := editing(ctx, v, v.query)
	if err == errNoLevel {
		return page{to: limitsPath}, nil
	}
	if view == nil {
		return page{}, err
	}
	over := view.Form.Over
	view.Form = formOf(v.query)
	view.Overtaken = v.query.Has("over") && view.Form.Over != over // an address without a version is no outdated form
	view.Form.Over = over
	o, err := view.Form.Read(view.Level, v.as.Now())
	if err != nil {
		return view.refused(err)
	}
	if view.Preview, err = v.as.Preview(ctx, view.Level, &o); err != nil {
		return view.refused(err)
	}
	view.Says = words.Preview(view.Preview)
	view.Now, view.Then = inForceOf(view.Preview.Before, view.Level), inForceOf(view.Preview.After, view.Level)
	view.Then.Source = "" // the source is this form
	view.Moves = view.Preview.Moves[:min(len(view.Preview.Moves), mostMoves)]
	view.More = int64(len(view.Preview.Moves) - len(view.Moves))
	return view.page(http.StatusOK), nil
}

// refused returns the page with the form's problems, or the error if it is not about the form.
func (view *editView) refused(err error) (page, error) {
	if view.Faults = wrongWith(err); len(view.Faults) > 0 {
		return view.page(http.StatusBadRequest), nil
	}
	return page{}, err
}

// changeLimits sets an override, or removes it once the removal is confirmed.
func (c *Console) changeLimits(ctx context.Context, v *visit) (page, error) {
	view, err := editing(ctx, v, v.form)
	if view == nil {
		return page{}, err
	}
	over, err := strconv.ParseInt(v.form.Get("over"), 10, 64)
	do := v.form.Get("do")
	if err != nil || do != "apply" && do != "remove" {
		return page{}, errBadForm
	}
	if do == "remove" {
		return removeLimits(ctx, v, view, over)
	}
	now := view.Form.Over
	view.Form = formOf(v.form)
	o, err := view.Form.Read(view.Level, v.as.Now())
	if err != nil {
		return view.refused(err)
	}
	_, err = v.as.SetLimit(ctx, o, over)
	switch {
	case errors.Is(err, limits.ErrConflict):
		view.Overtaken, view.Form.Over = true, now
		return view.page(http.StatusConflict), nil
	case err != nil:
		return view.refused(err)
	}
	return page{to: editOf(view.Level) + "&done=limit-set"}, nil
}

// removeLimits removes the override if it still has the version that the form showed.
func removeLimits(ctx context.Context, v *visit, view *editView, over int64) (page, error) {
	if view.Existing == nil || view.Existing.Version != over {
		view.Overtaken = true
		return view.page(http.StatusConflict), nil
	}
	if !v.confirmed() {
		below, err := v.as.Below(view.Level)
		if err != nil {
			return page{}, err
		}
		return confirm(v, "Remove an override", confirmation{
			Sentences: []string{"The override is removed, and the limit below it is in force within a second."},
			Facts: []fact{{"Of", words.Say(view.Name)}, {"Removed", words.Override(&view.Existing.Override)}, {"Set by", words.Say(view.Existing.By)},
				{"Then in force", words.Say(below.Policy.String(), ", from ", below.Source.Words())}},
			Button: "Remove it", Back: editOf(view.Level),
		}), nil
	}
	err := v.as.UnsetLimit(ctx, view.Level, over)
	if errors.Is(err, limits.ErrConflict) || errors.Is(err, operate.ErrNoOverride) {
		view.Overtaken = true
		return view.page(http.StatusConflict), nil
	}
	if err != nil {
		return page{}, err
	}
	return page{to: editOf(view.Level) + "&done=limit-unset"}, nil
}
