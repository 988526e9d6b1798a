package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

func (r *rig) set(o limits.Override) {
	r.t.Helper()
	o.By = "ann"
	must(r.t, r.setting.Work.Overrides.Set(r.t.Context(), o))
	r.refresh()
}

func (r *rig) refresh() {
	r.t.Helper()
	_, err := r.setting.Work.Overrides.Refresh(r.t.Context(), r.setting.Work.Limits)
	must(r.t, err)
}

func hourly(n int) throttle.Policy {
	return throttle.Policy{Rates: []throttle.Rate{{Count: n, Period: time.Hour}}}
}

func (r *rig) there(l limits.Level) *limits.Override {
	r.t.Helper()
	o, err := r.setting.Work.Overrides.Get(r.t.Context(), l)
	must(r.t, err)
	return o
}

func TestLimitsPage(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens)
	operator, viewer := r.as(operatorToken), r.as(viewerToken)
	contains(t, operator.get(http.StatusOK, limitsPath), "default", "1h apart", "security", "exempt", "There are no overrides.", `action="/console/limits/edit"`)
	r.set(limits.Override{Level: limits.Level{User: "zoe"}, Policy: hourly(1)})
	r.set(limits.Override{Level: limits.Level{App: "shop", User: "ada"}, Policy: hourly(2), Until: time.Now().Add(time.Hour)})
	r.set(limits.Override{Level: limits.Level{App: "shop", Category: "news", User: "ada"}, Policy: hourly(3)})
	r.set(limits.Override{Level: limits.Level{App: "shop"}, Policy: hourly(4)})
	text := viewer.get(http.StatusOK, limitsPath)
	contains(t, text, "/console/limits/edit?app=shop&amp;category=news&amp;user=ada", "ann")
	lacks(t, text, `action="/console/limits`, ">change<")
	last := -1
	for _, want := range []string{"1/1h", "4/1h", "2/1h", "3/1h"} {
		if at := strings.Index(text, want); at < last {
			t.Errorf("%s is not in its place", want)
		} else {
			last = at
		}
	}
	all := make([]limits.Override, 600)
	for i := range all {
		all[i] = limits.Override{Level: limits.Level{User: fmt.Sprint("user-", i)}, By: "ann", Policy: hourly(1)}
	}
	must(t, r.setting.Work.Overrides.Import(t.Context(), all))
	text = viewer.get(http.StatusOK, limitsPath)
	contains(t, text, `href="/console/limits?cursor=`)
	if len(text) > 100<<10 {
		t.Errorf("a page has %d bytes", len(text))
	}
	viewer.get(http.StatusBadRequest, limitsPath+"?x=1")
	viewer.get(http.StatusBadRequest, limitsPath+"?cursor=x")
}

// An operator reads a limit, previews a change, applies it, and removes it again.
func TestEditLimits(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens)
	operator, viewer := r.as(operatorToken), r.as(viewerToken)
	r.setting.Work.Limits.SetBase(hourly(1), nil)
	for i := range 4 {
		_, err := r.limiter.Acquire(t.Context(), throttle.Request{App: "shop", User: "ada", ID: fmt.Sprint("order-", i), Scopes: r.setting.Work.Limits.Scopes("shop", "ada", ""), Horizon: 24 * time.Hour})
		must(t, err)
	}
	level := limits.Level{App: "shop", User: "ada"}
	text := operator.get(http.StatusOK, editOf(level))
	contains(t, text, "Limits of app shop, user ada", "1/1h, from the configuration", "<dt>Override here</dt><dd>none", `<option selected>2h</option>`, `name="rates" value="1/1h"`, ">Preview<", ">Apply<")
	lacks(t, text, ">Remove<")
	lacks(t, viewer.get(http.StatusOK, editOf(level)), `action="/console/limits`, ">Apply<")

	form := fields(text)
	for name, value := range map[string]string{"min_gap": "", "rates": "1/1m", "for": "2h"} {
		form.Set(name, value)
	}
	for _, who := range []*rig{operator, viewer} {
		contains(t, who.get(http.StatusOK, previewPath+"?"+form.Encode()), "3 of 3 that wait would leave sooner", "order-3", "The last would leave", "1/1m, until")
	}
	if r.there(level) != nil {
		t.Fatal("a preview sets")
	}
	contains(t, operator.get(http.StatusOK, previewPath+"?"+form.Encode()), `name="rates" value="1/1m"`)
	form.Set("do", "apply")
	viewer.post(http.StatusForbidden, editPath, form)
	if to := operator.post(http.StatusSeeOther, editPath, form); to != editOf(level)+"&done=limit-set" {
		t.Errorf("leads to %s", to)
	}
	o := r.there(level)
	if o == nil || o.By != "ada" || o.Policy.Rates[0].Period != time.Minute || time.Until(o.Until) > 2*time.Hour || time.Until(o.Until) < time.Hour {
		t.Fatalf("%+v", o)
	}
	r.refresh()

	// the form is outdated: it was made without an override
	contains(t, operator.post(http.StatusConflict, editPath, form), "has changed since the form was made", "1/1m", `name="over" value="1"`)
	text = operator.get(http.StatusOK, editOf(level)+"&done=limit-set")
	contains(t, text, "in force on every worker", "set by <bdi>ada</bdi>", ">Remove<", "the override of the app and user")
	form = fields(text)
	form.Set("do", "remove")
	asked := operator.post(http.StatusOK, editPath, form)
	contains(t, asked, "The override is removed", "1/1m until", "1/1h, from the configuration")
	if r.there(level) == nil {
		t.Fatal("it is removed before that is confirmed")
	}
	if to := operator.post(http.StatusSeeOther, editPath, hidden(t, asked)); !strings.HasSuffix(to, "done=limit-unset") || r.there(level) != nil {
		t.Errorf("leads to %s", to)
	}
	contains(t, operator.post(http.StatusConflict, editPath, hidden(t, asked)), "Now there is none.")
	log, err := r.setting.Work.Overrides.Log(t.Context(), 0, 10)
	if err != nil || len(log) != 2 || log[0].By != "ada" {
		t.Errorf("%+v, %v", log, err)
	}
}

// Errors of a form appear beside its fields, and nothing changes.
func TestInvalidLimitFormChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *setting) {
		o.Work.Quotas = func() (operate.Quotas, error) {
			return operate.Quotas{{Key: "quota/eu", Name: "eu", Apps: []string{"shop"}, Quota: config.Quota{Rate: throttle.Rate{Count: 600, Period: time.Minute}}}}, nil
		}
	})
	for _, c := range []struct{ form, want string }{
		{"user=u", "is missing, as rates and quiet_hours are"},
		{"user=u&min_gap=x", `<div id="min_gap-hint"><p class="fault">want a duration`},
		{"user=u&rates=1/1m,2", `<div id="rates-hint"><p class="fault">rate &#34;2&#34;: there is no slash`},
		{"user=u&rates=1/1m&for=1h&until=2099-01-01T00:00", `<div id="until-hint"><p class="fault">give a length or an instant, not both`},
		{"user=u&exempt=yes", "exempt: is for a category"},
		{"app=shpo&rates=1/1m", "app is not one of the configuration&#39;s apps: shop; did you mean shop?"},
		{"quota=eu&rates=1/1m 2/1h", "want one for a quota"},
	} {
		values, err := url.ParseQuery(c.form)
		must(t, err)
		values.Set("over", "0")
		contains(t, r.get(http.StatusBadRequest, previewPath+"?"+values.Encode()), c.want)
		values.Set("do", "apply")
		contains(t, r.post(http.StatusBadRequest, editPath, values), c.want)
	}
	for _, form := range []string{"rates=1/1m&over=0&do=apply", "user=u&rates=1/1m&do=apply", "user=u&rates=1/1m&over=0", "user=%00&over=0&do=apply", "user=u&over=0&do=delete", "user=u+&min_gap=1s&over=0&do=apply"} {
		values, _ := url.ParseQuery(form)
		r.post(http.StatusBadRequest, editPath, values)
	}
	for form, want := range map[string]string{
		"user=u&do=mute&until=2020-01-01T00:00:00Z&confirmed=yes": "has passed", "app=shpo&do=mute&confirmed=yes": "did you mean shop?",
		"user=u&do=silence": "<h1>", "do=mute": "<h1>", "user=u&quota=q&do=mute": "<h1>",
	} {
		values, _ := url.ParseQuery(form)
		contains(t, r.post(http.StatusBadRequest, mutePath, values), want)
	}
	contains(t, r.get(http.StatusOK, previewPath+"?quota=eu&rates=300/1m&over=0"), "No forecast for quotas", "300/1m")
	lacks(t, r.get(http.StatusOK, previewPath+"?quota=eu&rates=300/1m"), "has changed since")
	leads(t, r.get(http.StatusSeeOther, editPath), limitsPath)
	if log, err := r.setting.Work.Overrides.Log(t.Context(), 0, 1); err != nil || len(log) > 0 {
		t.Errorf("%+v, %v", log, err)
	}
}

// A change can be undone once, if nothing has changed since. Undoing restores the override before
// it.
func TestLimitChangeIsUndoneOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens)
	operator, viewer := r.as(operatorToken), r.as(viewerToken)
	level, other := limits.Level{User: "ada"}, limits.Level{Category: "news"}
	r.set(limits.Override{Level: level, Policy: hourly(1)})
	r.set(limits.Override{Level: other, Policy: hourly(9)})
	r.set(limits.Override{Level: level, Policy: hourly(2), Until: time.Now().Add(time.Hour)})
	text := operator.get(http.StatusOK, limitsLogPath)
	contains(t, text, `name="version" value="3"`, `name="version" value="2"`, "2/1h until", ">none<")
	lacks(t, text, `name="version" value="1"`)
	lacks(t, viewer.get(http.StatusOK, limitsLogPath), `action="/console/limits`, "Undo")
	undo := func(version string) url.Values { return url.Values{"version": {version}} }
	viewer.post(http.StatusForbidden, limitsLogPath, undo("3"))
	contains(t, operator.post(http.StatusConflict, limitsLogPath, undo("1")), "The limits have changed since")
	asked := operator.post(http.StatusOK, limitsLogPath, undo("3"))
	contains(t, asked, "is in force again", "user ada", "2/1h until", "<dt>Then</dt><dd>1/1h", "ann")
	if operator.post(http.StatusSeeOther, limitsLogPath, hidden(t, asked)) != limitsLogPath+"?done=limit-undone" {
		t.Error("it leads elsewhere")
	}
	if o := r.there(level); o == nil || o.Policy.Rates[0].Count != 1 || !o.Until.IsZero() || o.By != "ada" {
		t.Errorf("%+v", o)
	}
	contains(t, operator.post(http.StatusConflict, limitsLogPath, hidden(t, asked)), "The limits have changed since")
	asked = operator.post(http.StatusOK, limitsLogPath, undo("2"))
	contains(t, asked, "There was no override before the change: it is removed.")
	operator.post(http.StatusSeeOther, limitsLogPath, hidden(t, asked))
	if r.there(other) != nil {
		t.Error("it is there still")
	}
	operator.post(http.StatusNotFound, limitsLogPath, undo("99"))
	operator.post(http.StatusBadRequest, limitsLogPath, undo("x"))
	operator.get(http.StatusBadRequest, limitsLogPath+"?before=0")
	contains(t, operator.get(http.StatusOK, limitsLogPath+"?before=2"), `aria-label="Undo change 1"`)
}

// A name that is not configured has no editable limits, unless it still has an override, which can
// be removed.
func TestUnknownLevelHasNoLimits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, level := range []limits.Level{{Quota: "none"}, {App: "none", User: "ada"}} {
		contains(t, r.get(http.StatusNotFound, editOf(level)), "There is no such")
		must(t, r.setting.Work.Overrides.Set(t.Context(), limits.Override{Level: level, Policy: hourly(1), By: "kim"}))
		r.get(http.StatusOK, editOf(level))
	}
}
