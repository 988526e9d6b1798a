package quotas

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/push"
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
		for platform, shared := range cfg.Apps[app].Shared() {
			if shared.Quota == nil {
				continue
			}
			key, err := KeyOfProvider(cfg, app, platform)
			if err != nil {
				unknown = append(unknown, fmt.Errorf("the quota of apps.%s.%s: its project is not known: %w", app, platform, err))
				continue
			}
			q := shared.Quota.Quota
			if shared.Quota.Name != "" {
				q = cfg.Limits.Quotas[shared.Quota.Name].Quota
			}
			add(app, key, shared.Quota.Name, q)
		}
		for category, c := range cfg.Limits.Categories {
			if c.Throughput != nil {
				add(app, KeyOfCategory(app, category), "", *c.Throughput)
			}
		}
	}
	return all, errors.Join(unknown...)
}

// KeyOfProvider returns the key of the quota of an app's provider: of limits.quotas, of the
// Firebase project, or of the app.
func KeyOfProvider(cfg *config.Config, app string, platform push.Platform) (string, error) {
	if name := cfg.Apps[app].Shared()[platform].Quota.Name; name != "" {
		return KeyOf(name), nil
	}
	of := app
	if platform == push.FCM { // it is the project's, whichever of its apps sends
		var err error
		if of, err = cfg.Apps[app].FCM.Project(); err != nil {
			return "", err
		}
	}
	return string(platform) + "/" + throttle.Escape(of), nil
}

// KeyOfCategory returns the key of the throughput of an app's category.
func KeyOfCategory(app, category string) string {
	return "category/" + throttle.Escape(app) + "/" + throttle.Escape(category)
}
