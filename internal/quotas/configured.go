package quotas

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/throttle"
)

// Of returns the quotas that a configuration has, by key. Beside an error it leaves out
// those of Firebase projects that only credentials name, which cannot be read.
func Of(cfg *config.Config) (map[string]Quota, error) {
	all := map[string]Quota{}
	var unknown []error
	add := func(app, key, name string, q config.Quota) {
		of := all[key]
		if !slices.Contains(of.Apps, app) {
			of.Apps = append(of.Apps, app)
		}
		all[key] = Quota{Key: key, Name: name, Apps: of.Apps, Quota: q}
	}
	for _, app := range slices.Sorted(maps.Keys(cfg.Apps)) {
		for _, p := range cfg.Apps[app].Providers() {
			if p.Quota == nil {
				continue
			}
			key, err := KeyOfProvider(app, &p)
			if err != nil {
				unknown = append(unknown, fmt.Errorf("the quota of apps.%s.%s: its project is not known: %w", app, p.Platform, err))
				continue
			}
			q := p.Quota.Quota
			if p.Quota.Name != "" {
				q = cfg.Limits.Quotas[p.Quota.Name].Quota
			}
			add(app, key, p.Quota.Name, q)
		}
		for category, c := range cfg.Limits.Categories {
			if c.Throughput != nil {
				add(app, KeyOfCategory(app, category), "", *c.Throughput)
			}
		}
	}
	return all, errors.Join(unknown...)
}

// KeyOfProvider returns the key of the quota that an app's provider has: of limits.quotas,
// of the project, or of the app.
func KeyOfProvider(app string, p *config.Provider) (string, error) {
	if p.Quota.Name != "" {
		return KeyOf(p.Quota.Name), nil
	}
	of := app
	if p.Project != nil { // it is the project's, whichever of its apps sends
		var err error
		if of, err = p.Project(); err != nil {
			return "", err
		}
	}
	return string(p.Platform) + "/" + throttle.Escape(of), nil
}

// KeyOfCategory returns the key of the throughput of an app's category.
func KeyOfCategory(app, category string) string {
	return "category/" + throttle.Escape(app) + "/" + throttle.Escape(category)
}
