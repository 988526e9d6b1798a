package operate

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/throttle"
)

// ConfiguredQuotas returns a configuration's quotas by key. If a Firebase project's credentials
// file cannot be read, it returns an error and leaves out the project's quotas.
func ConfiguredQuotas(cfg *config.Config) (map[string]Quota, error) {
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
			key, err := ProviderQuotaKey(app, &p)
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
				add(app, CategoryQuotaKey(app, category), "", *c.Throughput)
			}
		}
	}
	return all, errors.Join(unknown...)
}

// ProviderQuotaKey returns the key of a provider's quota: of limits.quotas, of the Firebase
// project, or of the app.
func ProviderQuotaKey(app string, p *config.Provider) (string, error) {
	if p.Quota.Name != "" {
		return NamedQuotaKey(p.Quota.Name), nil
	}
	of := app
	if p.Project != nil { // all apps of a project share its quota
		var err error
		if of, err = p.Project(); err != nil {
			return "", err
		}
	}
	return string(p.Platform) + "/" + throttle.Escape(of), nil
}

// CategoryQuotaKey returns the key of a category's throughput.
func CategoryQuotaKey(app, category string) string {
	return "category/" + throttle.Escape(app) + "/" + throttle.Escape(category)
}
