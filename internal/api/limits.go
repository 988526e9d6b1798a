package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/faults"
	"github.com/pushpace/pushpace/internal/names"
	"github.com/pushpace/pushpace/internal/quotas"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// A policy is one in force, and where it is from.
type policy struct {
	MinGap string          `json:"min_gap,omitempty"`
	Rates  []throttle.Rate `json:"rates,omitempty"`
	Exempt bool            `json:"exempt,omitempty"`
	Source limits.Source   `json:"source,omitempty"`
	Until  time.Time       `json:"until,omitzero"`
}

func policyOf(r limits.EffectivePolicy) policy {
	p := policy{Rates: r.Policy.Rates, Exempt: r.Policy.Exempt, Source: r.Source, Until: r.Until}
	if r.Policy.MinGap > 0 {
		p.MinGap = r.Policy.MinGap.String()
	}
	return p
}

// allLimits are the configured policies and a part of what is above them.
type allLimits struct {
	Default    policy            `json:"default"`
	Categories map[string]policy `json:"categories"`
	Overrides  []limits.Override `json:"overrides"`
	// Next is the cursor of the other overrides; "" when this is the end.
	Next string `json:"next,omitempty"`
	// Horizon is the longest gap or period of an override.
	Horizon string `json:"horizon"`
}

// limits lists them.
func (a *API) limits(ctx context.Context, c *call) (reply, error) {
	limit, err := pageLimit(c)
	if err != nil {
		return reply{}, err
	}
	general, categories := a.o.Limits.Base()
	all := allLimits{Default: policyOf(limits.EffectivePolicy{Policy: general}), Categories: map[string]policy{}, Horizon: a.o.Overrides.Horizon().String()}
	for name, p := range categories {
		all.Categories[name] = policyOf(limits.EffectivePolicy{Policy: p})
	}
	all.Overrides, all.Next, err = a.o.Overrides.ListFrom(ctx, c.query.Get("cursor"), limit)
	configured := a.o.Quotas()
	all.Overrides = slices.DeleteFunc(all.Overrides, func(o limits.Override) bool { return !c.who.SeesLevel(o.Level, configured) })
	if all.Overrides == nil {
		all.Overrides = []limits.Override{}
	}
	return reply{http.StatusOK, all}, err
}

// levelLimits are those in force at a level.
type levelLimits struct {
	limits.Level
	// General is the general one, OfCategory the category's own.
	General    policy           `json:"general"`
	OfCategory *policy          `json:"of_category,omitempty"`
	Override   *limits.Override `json:"override,omitempty"` // of exactly this level
}

// level is whose limits the path and the query are about.
func level(c *call) (limits.Level, error) {
	l := limits.Level{App: cmp.Or(c.PathValue("app"), c.query.Get("app")), User: c.PathValue("user"), Category: c.PathValue("category"), Quota: c.PathValue("quota")}
	for _, name := range []struct{ is, value string }{{"app", l.App}, {"user", l.User}, {"category", l.Category}} {
		named := strings.Contains(c.Pattern, "{"+name.is+"}") || name.is == "app" && c.query.Has("app")
		if named && !push.ValidName(name.value) {
			return l, &problem{Status: http.StatusBadRequest,
				Detail: "The " + name.is + " must be UTF-8 without control characters, of 1 to " + strconv.Itoa(push.MaxNameBytes) + " bytes."}
		}
	}
	return l, nil
}

// ownLevel is a level of the bearer's own.
func (a *API) ownLevel(c *call) (limits.Level, error) {
	l, err := level(c)
	if err != nil {
		return l, err
	}
	return l, c.who.OwnsLevel(l, a.o.Quotas())
}

// knownLevel is one whose app or quota, where it names one, the configuration has.
func (a *API) knownLevel(c *call) (l limits.Level, q quotas.Quota, err error) {
	if l, err = a.ownLevel(c); err != nil {
		return l, q, err
	}
	return a.configured(c, l)
}

func (a *API) configured(c *call, l limits.Level) (_ limits.Level, q quotas.Quota, err error) {
	if apps := c.who.Configured(a.o.Apps); l.App != "" && apps.Fault(l.App) != "" {
		return l, q, badApp(l.App, apps)
	}
	if l.Quota != "" {
		if q, err = a.o.Quotas().Find(l.Quota); err != nil {
			return l, q, &problem{Status: http.StatusBadRequest, Detail: "The " + err.Error() + "."}
		}
		l.Quota = q.Key
	}
	return l, q, nil
}

// quotas lists what all workers together may do.
func (a *API) quotas(ctx context.Context, c *call) (reply, error) {
	read := quotas.Reader{Overrides: a.o.Overrides, Policies: a.o.Limits, Meter: a.o.Meter}
	all, err := read.Read(ctx, c.who.Quotas(a.o.Quotas()))
	return reply{http.StatusOK, struct {
		Quotas []quotas.Status `json:"quotas"`
	}{all}}, err
}

// limit shows what is in force.
func (a *API) limit(ctx context.Context, c *call) (reply, error) {
	at, _, err := a.knownLevel(c)
	if err != nil {
		return reply{}, err
	}
	general, own, override, err := a.o.Overrides.InForce(ctx, a.o.Limits, at)
	l := levelLimits{Level: at, General: policyOf(general), Override: override}
	if at.Category != "" {
		ofCategory := policyOf(own)
		l.OfCategory = &ofCategory
	}
	return reply{http.StatusOK, l}, err
}

// wanted is the body that sets an override.
type wanted struct {
	MinGap push.Duration `json:"min_gap"`
	Rates  []string      `json:"rates"`
	Exempt bool          `json:"exempt"`
	Until  time.Time     `json:"until"`
}

// setting is the answer to it.
type setting struct {
	Override limits.Override `json:"override"`
	// Warnings are what is odd about it.
	Warnings []string `json:"warnings,omitempty"`
}

// setLimit puts an override in force.
func (a *API) setLimit(ctx context.Context, c *call) (reply, error) {
	at, quota, err := a.knownLevel(c)
	if err != nil {
		return reply{}, err
	}
	o := limits.Override{Level: at, By: c.who.Name}
	if err := readOverride(c.body, &o, a.o.Overrides.Horizon()); err != nil {
		return reply{}, err
	}
	if err := checkQuota(quota, o); err != nil {
		return reply{}, err
	}
	_, before, _, err := a.o.Overrides.InForce(ctx, a.o.Limits, at)
	if err != nil {
		return reply{}, err
	}
	switch err := a.o.Overrides.Set(ctx, o); {
	case errors.Is(err, limits.ErrPast):
		return reply{}, invalid([]fault{{"/until", err.Error()}})
	case errors.Is(err, limits.ErrTooManyOverrides):
		return reply{}, &problem{Status: http.StatusConflict, Detail: "There are too many overrides: remove some, or change the configuration."}
	case err != nil:
		return reply{}, err
	}
	a.log.Info("a limit is overridden", "by", c.who.Name, "remote", c.RemoteAddr)
	stands, err := a.o.Overrides.Get(ctx, at)
	if err != nil {
		return reply{}, err
	}
	if stands != nil { // with its instant
		o = *stands
	}
	return reply{http.StatusOK, setting{o, names.OverrideWarnings(o, before.Policy, a.o.Limits.Configured())}}, nil
}

// checkQuota reports what the quota does not take as its rate.
func checkQuota(q quotas.Quota, o limits.Override) error {
	if o.Quota == "" {
		return nil
	}
	if err := q.Check(o.Policy.Rates[0]); err != nil {
		return invalid([]fault{{"/rates", err.Error()}})
	}
	return nil
}

// readOverride reads the body into o, and validates it.
func readOverride(body []byte, o *limits.Override, horizon time.Duration) error {
	var w wanted
	if err := push.ParseStrictly(body, &w); err != nil {
		return err
	}
	return w.override(o, func() error { return o.Validate(horizon) })
}

// override has o be what is wanted, as far as that is valid.
func (w *wanted) override(o *limits.Override, validate func() error) error {
	o.Policy, o.Until = throttle.Policy{MinGap: time.Duration(w.MinGap), Exempt: w.Exempt}, w.Until
	var all []fault
	for i, text := range w.Rates {
		rate, err := throttle.ParseRate(text)
		if err != nil {
			all = append(all, fault{"/rates/" + strconv.Itoa(i), err.Error()})
		}
		o.Policy.Rates = append(o.Policy.Rates, rate)
	}
	if len(all) > 0 {
		return invalid(all)
	}
	for _, f := range faults.Of(validate()) {
		switch f.Field {
		case "min_gap", "rates", "exempt", "until":
			all = append(all, fault{"/" + f.Field, f.Problem})
		default: // the level, and who sets it, are not in the body
			all = append(all, fault{"", faults.Faults{f}.Error()})
		}
	}
	if len(all) > 0 {
		return invalid(all)
	}
	return nil
}

var errNoOverride = &problem{Status: http.StatusNotFound, Detail: "There is no override here."}

// unsetLimit removes an override.
func (a *API) unsetLimit(ctx context.Context, c *call) (reply, error) {
	at, err := a.ownLevel(c) // an app or a quota may have left the configuration
	if err != nil {
		return reply{}, err
	}
	if q, err := a.o.Quotas().Find(at.Quota); err == nil {
		at.Quota = q.Key
	}
	there, err := a.o.Overrides.Unset(ctx, at, c.who.Name)
	if err != nil {
		return reply{}, err
	}
	if !there {
		return reply{}, errNoOverride
	}
	a.log.Info("an override of a limit is removed", "by", c.who.Name, "remote", c.RemoteAddr)
	return reply{status: http.StatusNoContent}, nil
}

// limitsLog tells who changed which limit.
func (a *API) limitsLog(ctx context.Context, c *call) (reply, error) {
	limit, err := pageLimit(c)
	if err != nil {
		return reply{}, err
	}
	before := int64(0)
	if text := c.query.Get("before"); text != "" {
		if before, err = strconv.ParseInt(text, 10, 64); err != nil || before < 1 {
			return reply{}, badQuery("before", "the version of a change")
		}
	}
	changes, err := c.who.Log(ctx, a.o.Overrides, a.o.Quotas(), before, limit)
	return reply{http.StatusOK, struct {
		Changes []limits.Change `json:"changes"`
	}{changes}}, err
}
