package main

import (
	"errors"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/quotas"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker"
)

// quotasOf returns what all workers together may do, by the meter's key. Its error tells
// of those that are left out: of Firebase projects that only credentials name, which
// cannot be read.
func quotasOf(cfg *config.Config) (map[string]quotas.Quota, error) {
	all := map[string]quotas.Quota{}
	var unknown []error
	add := func(app, key, name string, q config.Quota) {
		of := all[key]
		if !slices.Contains(of.Apps, app) {
			of.Apps = append(of.Apps, app)
		}
		all[key] = quotas.Quota{Key: key, Name: name, Apps: of.Apps, Quota: q}
	}
	for _, app := range slices.Sorted(maps.Keys(cfg.Apps)) {
		for platform, shared := range cfg.Apps[app].Shared() {
			if shared.Quota == nil {
				continue
			}
			key, err := quotaKey(cfg, app, platform)
			if err != nil {
				unknown = append(unknown, misusedf("the quota of apps.%s.%s: its project is not known: %w", app, platform, err))
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
				add(app, throughputKey(app, category), "", *c.Throughput)
			}
		}
	}
	return all, errors.Join(unknown...)
}

// quotaKey is the key of the quota of an app's provider, of its own or by its name.
func quotaKey(cfg *config.Config, app string, platform push.Platform) (string, error) {
	if name := cfg.Apps[app].Shared()[platform].Quota.Name; name != "" {
		return quotas.KeyOf(name), nil
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

func throughputKey(app, category string) string {
	return "category/" + throttle.Escape(app) + "/" + throttle.Escape(category)
}

// liveQuotas are what all workers together may do, by the meter's key.
type liveQuotas map[string]*liveQuota

// A liveQuota is one of the configuration, which may change while the workers run, as
// may the override above it.
type liveQuota struct {
	configured atomic.Pointer[quotas.Quota]
	inForce    atomic.Pointer[quotaInForce]
}

// quotaInForce is what is allowed of a quota at a rate that overrides it, the zero one
// for none.
type quotaInForce struct {
	of   *quotas.Quota
	rate throttle.Rate
	spec meter.Spec
}

func newLiveQuotas(cfg *config.Config) (liveQuotas, error) {
	all, err := quotasOf(cfg)
	live := liveQuotas{}
	for key, q := range all {
		live[key] = new(liveQuota)
		live[key].configured.Store(&q)
	}
	return live, err
}

// take has the configuration's take effect. Those that are gone from it stay.
func (l liveQuotas) take(cfg *config.Config) {
	all, _ := quotasOf(cfg) // those that are left out stay too
	for key, q := range all {
		if one := l[key]; one != nil {
			one.configured.Store(&q)
		}
	}
}

// list returns them as they are configured.
func (l liveQuotas) list() quotas.Quotas {
	var all quotas.Quotas
	for _, one := range l {
		all = append(all, *one.configured.Load())
	}
	return all
}

// of returns the quota of that key for a worker.
func (l liveQuotas) of(key string, policies *limits.Policies) worker.Quota {
	one := l[key]
	return worker.Quota{Key: key, Spec: func() meter.Spec {
		q := one.configured.Load()
		rate, _ := policies.Quota(key)
		known := one.inForce.Load()
		if known == nil || known.of != q || known.rate != rate {
			known = &quotaInForce{q, rate, q.InForce(rate).Spec().Promise()}
			one.inForce.Store(known)
		}
		return known.spec
	}}
}

// limitTogether sets what all workers together may do of each app. Without any of it
// nothing is counted.
func (s *system) limitTogether(o *worker.Options, cfg *config.Config) error {
	o.Quotas, o.Throughputs, o.InFlight = map[string]map[push.Platform]worker.Quota{}, map[string]map[string]worker.Quota{}, map[string]map[push.Platform]int{}
	for name, app := range cfg.Apps {
		o.Quotas[name], o.Throughputs[name], o.InFlight[name] = map[push.Platform]worker.Quota{}, map[string]worker.Quota{}, map[push.Platform]int{}
		for platform, shared := range app.Shared() {
			o.InFlight[name][platform] = shared.Concurrency
			if shared.Quota == nil {
				continue
			}
			key, err := quotaKey(cfg, name, platform)
			if err != nil {
				return err
			}
			o.Quotas[name][platform] = s.quotas.of(key, s.limits)
		}
		for category, c := range cfg.Limits.Categories {
			if c.Throughput != nil {
				o.Throughputs[name][category] = s.quotas.of(throughputKey(name, category), s.limits)
			}
		}
	}
	if len(s.quotas) > 0 || cfg.Limits.Device != nil {
		o.Meter = s.meter
	}
	if cfg.Limits.Device != nil {
		s.guardDevices(cfg)
		o.Device = func() meter.Spec { return *s.device.Load() }
	}
	return nil
}

// guardDevices has what the configuration says of each device take effect. One that is
// gone from it stays.
func (s *system) guardDevices(cfg *config.Config) {
	if d := cfg.Limits.Device; d != nil {
		spec := d.Spec()
		s.device.Store(&spec)
	}
}
