package console

import (
	"cmp"
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/timeline"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

const (
	limitsPath    = Path + "limits"
	editPath      = limitsPath + "/edit"
	previewPath   = limitsPath + "/preview"
	limitsLogPath = limitsPath + "/log"
)

const (
	// rowsOfLimits is about how many overrides or changes a page has.
	rowsOfLimits = 100
	// readsOfLimits is how many pages are read for it, where the visitor does not see all.
	readsOfLimits = 10
)

// A limitsView is what limits.html shows.
type limitsView struct {
	Configured []configuredLimit
	Overrides  []overrideRow
	Apps       []string // that the visitor may set limits of
	All        bool     // also those of all apps
	Next       string   // where the other overrides are; "" for none
}

// A configuredLimit is a policy of the configuration.
type configuredLimit struct {
	Name, Policy string
	Edit         string // where it is overridden; "" for nowhere
}

// An overrideRow is an override as a page shows it.
type overrideRow struct {
	limits.Override
	Policy, Edit, Of string
}

func (c *Console) limitsPage(ctx context.Context, v *visit) (page, error) {
	all, next, err := c.overridesFrom(ctx, v)
	if err != nil {
		return page{}, err
	}
	general, categories := c.o.Limits.Base()
	view := viewOfLimits(general, categories, all)
	view.All = v.who.Sees("")
	view.Apps = slices.DeleteFunc(c.o.Apps.Names(), func(app string) bool { return !v.who.Sees(app) })
	if !view.All {
		for i := range view.Configured {
			view.Configured[i].Edit = ""
		}
	}
	if next != "" {
		view.Next = limitsPath + "?" + url.Values{"cursor": {next}}.Encode()
	}
	return page{name: "limits", title: "Limits", data: view}, nil
}

// overridesFrom returns a part of the overrides that the visitor sees, and the cursor of
// the others.
func (c *Console) overridesFrom(ctx context.Context, v *visit) (all []limits.Override, next string, err error) {
	next = v.query.Get("cursor")
	quotas := c.o.Quotas()
	for range readsOfLimits {
		var some []limits.Override
		if some, next, err = c.o.Overrides.ListFrom(ctx, next, rowsOfLimits); err != nil {
			return nil, "", err
		}
		all = append(all, slices.DeleteFunc(some, func(o limits.Override) bool { return !v.who.SeesLevel(o.Level, quotas) })...)
		if next == "" || len(all) >= rowsOfLimits {
			break
		}
	}
	return all, next, nil
}

// viewOfLimits sorts the overrides by app, then category, then user.
func viewOfLimits(general throttle.Policy, categories map[string]throttle.Policy, overrides []limits.Override) limitsView {
	view := limitsView{Configured: []configuredLimit{{Name: "", Policy: general.String()}}}
	for _, name := range slices.Sorted(maps.Keys(categories)) {
		view.Configured = append(view.Configured, configuredLimit{name, categories[name].String(), editOf(limits.Level{Category: name})})
	}
	slices.SortFunc(overrides, func(a, b limits.Override) int {
		return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Category, b.Category), cmp.Compare(a.User, b.User), cmp.Compare(a.Quota, b.Quota))
	})
	for _, o := range overrides {
		view.Overrides = append(view.Overrides, overrideRow{o, o.Policy.String(), editOf(o.Level), levelText(o.Level)})
	}
	return view
}

// editOf is where the limits of a level are changed.
func editOf(l limits.Level) string { return editPath + "?" + l.Key() }

// overrideText writes an override, with its end.
func overrideText(o *limits.Override) string {
	if o == nil {
		return "none"
	}
	if o.Until.IsZero() {
		return o.Policy.String()
	}
	return o.Policy.String() + " until " + stamp(o.Until)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" }

// levelText names a level.
func levelText(l limits.Level) string {
	var parts []string
	for _, name := range []struct{ of, is string }{{"user", l.User}, {"category", l.Category}, {"app", l.App}, {"quota", l.Quota}} {
		if name.is != "" {
			parts = append(parts, name.of+" "+timeline.Printable(name.is))
		}
	}
	return strings.Join(parts, ", ")
}
