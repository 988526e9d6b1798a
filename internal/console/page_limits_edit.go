package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/access"
	"github.com/pushpace/pushpace/internal/faults"
	"github.com/pushpace/pushpace/internal/preview"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// levelFields say whose limits a form or an address is about, and policyFields what they
// would be.
var (
	levelFields  = []string{"app", "user", "category", "quota"}
	policyFields = []string{"min_gap", "rates", "exempt", "until", "over"}
)

const (
	// previewWithin is how long a preview may take, and what is around it.
	previewWithin = preview.Budget + time.Second
	// usualEnd is when an override ends unless somebody says otherwise.
	usualEnd = "2h"
	// mostMoves bounds those that a preview lists.
	mostMoves = 100
)

// An editView is what limits-edit.html shows.
type editView struct {
	limits.Level
	Name string
	// General and Own are what is in force there: Own is a category's own, nil for none.
	General inForceView
	Own     *inForceView
	// There is the override of exactly this level; nil for none.
	There *overrideRow
	Form  limitForm
	// Faults are what is wrong with the form, by the field.
	Faults map[string][]string
	// Overtaken says that the form was made over another override than the one there.
	Overtaken bool
	// Told is what would happen; nil where nobody has asked.
	Told *preview.Preview
	// Now is in force there, and Then would be.
	Now, Then inForceView
	Moves     []preview.Move
	More      int64 // that are not listed
}

// An inForceView is a policy in force.
type inForceView struct {
	Policy, Source string
	Until          time.Time
}

func inForceOf(p limits.EffectivePolicy) inForceView {
	return inForceView{p.Policy.String(), p.Source.Words(), p.Until}
}

// A limitForm is a policy as somebody writes it, and the version of the override that it
// was written over.
type limitForm struct {
	MinGap, Rates, Until, Over string
	Exempt                     bool
}

func formOf(values url.Values) limitForm {
	return limitForm{values.Get("min_gap"), values.Get("rates"), values.Get("until"), values.Get("over"), values.Has("exempt")}
}

// formOver returns the form that has the override there or, without one, the policy in
// force.
func formOver(there *limits.Override, inForce throttle.Policy) limitForm {
	f := limitForm{Until: usualEnd, Over: "0"}
	if there != nil {
		inForce, f.Over, f.Until = there.Policy, strconv.FormatInt(there.Version, 10), ""
		if !there.Until.IsZero() {
			f.Until = there.Until.UTC().Format(time.RFC3339)
		}
	}
	if inForce.MinGap > 0 {
		f.MinGap = throttle.FormatPeriod(inForce.MinGap)
	}
	rates := make([]string, len(inForce.Rates))
	for i, r := range inForce.Rates {
		rates[i] = r.String()
	}
	f.Rates, f.Exempt = strings.Join(rates, " "), inForce.Exempt
	return f
}

// override returns what the form says at that instant, and what is wrong with it, by the
// field.
func (f *limitForm) override(at limits.Level, by string, now time.Time, horizon time.Duration) (limits.Override, map[string][]string) {
	o := limits.Override{Level: at, By: by, Policy: throttle.Policy{Exempt: f.Exempt}}
	wrong := map[string][]string{}
	fault := func(field, text string) { wrong[field] = append(wrong[field], text) }
	var err error
	if text := strings.TrimSpace(f.MinGap); text != "" {
		if o.Policy.MinGap, err = time.ParseDuration(text); err != nil {
			fault("min_gap", "want a duration such as 1s")
		}
	}
	for _, text := range strings.FieldsFunc(f.Rates, func(r rune) bool { return r == ' ' || r == ',' || r == '\n' || r == '\r' || r == '\t' }) {
		r, err := throttle.ParseRate(text)
		if err != nil {
			fault("rates", err.Error())
		}
		o.Policy.Rates = append(o.Policy.Rates, r)
	}
	if text := strings.TrimSpace(f.Until); text != "" {
		length, err := time.ParseDuration(text)
		if o.Until = now.Add(length).Truncate(time.Millisecond); err != nil {
			if o.Until, err = time.Parse(time.RFC3339, text); err != nil {
				fault("until", "want a duration such as 2h, or an instant as in 2026-12-24T20:00:00Z")
			}
		}
		if err == nil && !o.Until.After(now) {
			fault("until", limits.ErrPast.Error())
		}
	}
	if len(wrong) > 0 {
		return o, wrong
	}
	for _, f := range faults.Of(o.Validate(horizon)) {
		switch f.Field {
		case "min_gap", "rates", "until":
			fault(f.Field, f.Problem)
		default:
			fault("policy", faults.Faults{f}.Error())
		}
	}
	return o, wrong
}

var errNoLevel = &fault{http.StatusBadRequest, "Whose limits?", "Name a user, a category, an app or several of these, or a quota."}

var errNoSuchQuota = &fault{http.StatusNotFound, "There is no such quota", "The configuration has none of this name."}

// levelOf is whose limits the values are about: of what the visitor may set.
func (c *Console) levelOf(v *visit, values url.Values) (limits.Level, error) {
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
	if q, err := c.o.Quotas().Find(l.Quota); err == nil {
		l.Quota = q.Key
	}
	return l, v.who.OwnsLevel(l, c.o.Quotas())
}

// editing returns the page of a level, with the form that is made over what is there, and
// the policy that is in force.
func (c *Console) editing(ctx context.Context, at limits.Level) (*editView, error) {
	general, own, there, err := c.o.Overrides.InForce(ctx, c.o.Limits, at)
	if err != nil {
		return nil, err
	}
	view := &editView{Level: at, Name: levelText(at), General: inForceOf(general)}
	inForce := general.Policy
	if at.Category != "" {
		inForce, view.Own = own.Policy, new(inForceOf(own))
	}
	if at.Quota != "" {
		inForce = throttle.Policy{}
	}
	if there != nil {
		view.There = &overrideRow{Override: *there, Policy: there.Policy.String()}
	}
	view.Form = formOver(there, inForce)
	return view, nil
}

func (view *editView) page(status int) page {
	return page{name: "limits-edit", title: "Limits of " + view.Name, status: status, data: view}
}

// edited is editing, of the level that the address names.
func (c *Console) edited(ctx context.Context, v *visit) (*editView, error) {
	at, err := c.levelOf(v, v.query)
	if err != nil {
		return nil, err
	}
	return c.editing(ctx, at)
}

func (c *Console) editLimitsPage(ctx context.Context, v *visit) (page, error) {
	view, err := c.edited(ctx, v)
	if err == errNoLevel {
		return page{to: limitsPath}, nil
	}
	if err != nil {
		return page{}, err
	}
	if view.There == nil { // one of what the configuration has no more can be removed
		if view.App != "" && c.o.Apps.Fault(view.App) != "" {
			return page{}, errNoSuchApp
		}
		if _, err := c.o.Quotas().Find(view.Quota); view.Quota != "" && err != nil {
			return page{}, errNoSuchQuota
		}
	}
	return view.page(http.StatusOK), nil
}

// previewLimitsPage shows what the form in the address would do, and keeps it.
func (c *Console) previewLimitsPage(ctx context.Context, v *visit) (page, error) {
	view, err := c.edited(ctx, v)
	if err == errNoLevel {
		return page{to: limitsPath}, nil
	}
	if err != nil {
		return page{}, err
	}
	over := view.Form.Over
	view.Form = formOf(v.query)
	view.Overtaken = v.query.Has("over") && view.Form.Over != over // else nobody's form was
	view.Form.Over = over
	o, faults := c.wanted(view, v.who)
	if len(faults) > 0 {
		view.Faults = faults
		return view.page(http.StatusBadRequest), nil
	}
	if view.Told, err = c.o.Preview.Of(ctx, view.Level, &o); err != nil {
		return page{}, err
	}
	before := view.Told.Before
	view.Now = inForceView{before.Limits().String(), before.Source.Words(), before.Until}
	view.Then = inForceView{o.Policy.String(), "", o.Until}
	view.Moves = view.Told.Moves[:min(len(view.Told.Moves), mostMoves)]
	view.More = int64(len(view.Told.Moves) - len(view.Moves))
	return view.page(http.StatusOK), nil
}

// wanted is the override that the view's form is for, and what is wrong with it.
func (c *Console) wanted(view *editView, who access.Bearer) (limits.Override, map[string][]string) {
	o, faults := view.Form.override(view.Level, who.Name, c.o.Limits.Now(), c.o.Overrides.Horizon())
	if fault := who.Configured(c.o.Apps).Fault(view.App); view.App != "" && fault != "" {
		faults["policy"] = append(faults["policy"], "app "+fault)
	}
	if view.Quota != "" && len(faults) == 0 {
		if q, err := c.o.Quotas().Find(view.Quota); err != nil {
			faults["policy"] = []string{err.Error()}
		} else if err := q.Check(o.Policy.Rates[0]); err != nil {
			faults["rates"] = []string{err.Error()}
		}
	}
	return o, faults
}

// changeLimits sets an override, or removes it once that is confirmed.
func (c *Console) changeLimits(ctx context.Context, v *visit) (page, error) {
	at, err := c.levelOf(v, v.form)
	if err != nil {
		return page{}, err
	}
	over, err := strconv.ParseInt(v.form.Get("over"), 10, 64)
	do := v.form.Get("do")
	if err != nil || do != "apply" && do != "remove" {
		return page{}, errBadForm
	}
	view, err := c.editing(ctx, at)
	if err != nil {
		return page{}, err
	}
	if do == "remove" {
		return c.removeLimits(ctx, v, view, over)
	}
	now := view.Form.Over
	view.Form = formOf(v.form)
	o, faults := c.wanted(view, v.who)
	if len(faults) > 0 {
		view.Faults = faults
		return view.page(http.StatusBadRequest), nil
	}
	switch err := c.o.Overrides.Set(ctx, o, over); {
	case errors.Is(err, limits.ErrOvertaken):
		view.Overtaken, view.Form.Over = true, now
		return view.page(http.StatusConflict), nil
	case errors.Is(err, limits.ErrPast):
		view.Faults = map[string][]string{"until": {err.Error()}}
		return view.page(http.StatusBadRequest), nil
	case errors.Is(err, limits.ErrTooManyOverrides):
		return page{}, &fault{http.StatusConflict, "Too many overrides", "Remove some, or change the configuration."}
	case err != nil:
		return page{}, err
	}
	c.log.Info("a limit is overridden", "by", v.who.Name, "remote", v.RemoteAddr)
	return page{to: editOf(at) + "&done=limit-set"}, nil
}

// removeLimits removes the override that the form was made over.
func (c *Console) removeLimits(ctx context.Context, v *visit, view *editView, over int64) (page, error) {
	if view.There == nil || view.There.Version != over {
		view.Overtaken = true
		return view.page(http.StatusConflict), nil
	}
	if !v.confirmed() {
		below := c.o.Limits.InForceIf(view.Level, map[limits.Level]*limits.Override{view.Level: nil})
		return confirm(v, "Remove an override", confirmation{
			Sentences: []string{"The override is removed, and what is below it is in force within a second."},
			Facts: []field{{"Of", view.Name}, {"Removed", overrideText(&view.There.Override)}, {"Set by", view.There.By},
				{"Then in force", below.Policy.String() + ", from " + below.Source.Words()}},
			Button: "Remove it", Back: editOf(view.Level),
		}), nil
	}
	_, err := c.o.Overrides.Unset(ctx, view.Level, v.who.Name, over)
	if errors.Is(err, limits.ErrOvertaken) {
		view.Overtaken = true
		return view.page(http.StatusConflict), nil
	}
	if err != nil {
		return page{}, err
	}
	c.log.Info("an override of a limit is removed", "by", v.who.Name, "remote", v.RemoteAddr)
	return page{to: editOf(view.Level) + "&done=limit-unset"}, nil
}
