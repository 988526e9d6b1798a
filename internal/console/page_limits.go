package console

import (
	"cmp"
	"context"
	"maps"
	"net/url"
	"slices"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/throttle/limits"
)

const (
	limitsPath    = Path + "limits"
	editPath      = limitsPath + "/edit"
	previewPath   = limitsPath + "/preview"
	limitsLogPath = limitsPath + "/log"
)

// rowsOfLimits is about how many overrides or changes a page shows.
const rowsOfLimits = 100

// A limitsView is the data of limits.html.
type limitsView struct {
	Configured []configuredLimit
	Overrides  []overrideRow
	Apps       []string // the visitor may set their limits
	All        bool     // the visitor may set the limits of all apps
	Next       string   // the address of the next page of overrides; "" for none
}

// A configuredLimit is a policy of the configuration.
type configuredLimit struct {
	Name, Policy string
	Edit         string // the address to override it; "" for none
}

// An overrideRow is an override with its texts.
type overrideRow struct {
	limits.Override
	Policy, Edit, Of string
}

func (c *Console) limitsPage(ctx context.Context, v *visit) (page, error) {
	configured, err := v.as.Limits(ctx, limits.Level{})
	if err != nil {
		return page{}, err
	}
	overrides, err := v.as.Overrides(ctx, limits.Level{}, v.query.Get("cursor"), rowsOfLimits)
	if err != nil {
		return page{}, err
	}
	view := viewOfLimits(configured, overrides.Overrides)
	view.All, view.Apps = v.as.SeesAll(), v.as.Apps()
	if !view.All {
		for i := range view.Configured {
			view.Configured[i].Edit = ""
		}
	}
	if overrides.Next != "" {
		view.Next = limitsPath + "?" + url.Values{"cursor": {overrides.Next}}.Encode()
	}
	return page{name: "limits", title: "Limits", data: view}, nil
}

// viewOfLimits sorts the overrides by app, then category, then user.
func viewOfLimits(configured *operate.Limits, overrides []limits.Override) limitsView {
	view := limitsView{Configured: []configuredLimit{{Name: "", Policy: configured.General.Policy.String()}}}
	for _, name := range slices.Sorted(maps.Keys(configured.Categories)) {
		view.Configured = append(view.Configured, configuredLimit{name, configured.Categories[name].Policy.String(), editOf(limits.Level{Category: name})})
	}
	slices.SortFunc(overrides, func(a, b limits.Override) int {
		return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Category, b.Category), cmp.Compare(a.User, b.User), cmp.Compare(a.Quota, b.Quota))
	})
	for _, o := range overrides {
		view.Overrides = append(view.Overrides, overrideRow{o, words.Limits(&o), editOf(o.Level), words.Level(o.Level)})
	}
	return view
}

// editOf returns the address to change a level's limits and mute.
func editOf(l limits.Level) string {
	l.Mute = false
	return editPath + "?" + l.Key()
}
