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
	all, err := limitsFrom(ctx, v)
	if err != nil {
		return page{}, err
	}
	view := viewOfLimits(all)
	view.All, view.Apps = v.as.SeesAll(), v.as.Apps()
	if !view.All {
		for i := range view.Configured {
			view.Configured[i].Edit = ""
		}
	}
	if all.Next != "" {
		view.Next = limitsPath + "?" + url.Values{"cursor": {all.Next}}.Encode()
	}
	return page{name: "limits", title: "Limits", data: view}, nil
}

// limitsFrom returns the limits with a part of the overrides that the visitor sees, from
// the address's cursor on.
func limitsFrom(ctx context.Context, v *visit) (*operate.Limits, error) {
	var found []limits.Override
	next := v.query.Get("cursor")
	for read := 1; ; read++ {
		all, err := v.as.Limits(ctx, next, rowsOfLimits)
		if err != nil {
			return nil, err
		}
		found, next = append(found, all.Overrides...), all.Next
		if next == "" || len(found) >= rowsOfLimits || read == readsOfLimits {
			all.Overrides = found
			return all, nil
		}
	}
}

// viewOfLimits sorts the overrides by app, then category, then user.
func viewOfLimits(all *operate.Limits) limitsView {
	view := limitsView{Configured: []configuredLimit{{Name: "", Policy: all.Default.Policy.String()}}}
	for _, name := range slices.Sorted(maps.Keys(all.Categories)) {
		view.Configured = append(view.Configured, configuredLimit{name, all.Categories[name].Policy.String(), editOf(limits.Level{Category: name})})
	}
	slices.SortFunc(all.Overrides, func(a, b limits.Override) int {
		return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Category, b.Category), cmp.Compare(a.User, b.User), cmp.Compare(a.Quota, b.Quota))
	})
	for _, o := range all.Overrides {
		view.Overrides = append(view.Overrides, overrideRow{o, words.Limits(&o), editOf(o.Level), words.Level(o.Level)})
	}
	return view
}

// editOf is where the limits of a level are changed, and its mute.
func editOf(l limits.Level) string {
	l.Mute = false
	return editPath + "?" + l.Key()
}
