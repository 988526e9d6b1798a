package main

import (
	"sync/atomic"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker"
)

// liveQuotas are what all workers together may send, by the meter's key.
type liveQuotas map[string]*liveQuota

// A liveQuota is one of the configuration, which may change while the workers run.
type liveQuota struct {
	spec atomic.Pointer[meter.Spec]
	// of find it in a configuration, one for each that shares it; nil where it is gone.
	of []func(*config.Config) *config.Quota
}

// add answers the quota of that key for a worker.
func (q liveQuotas) add(cfg *config.Config, key string, of func(*config.Config) *config.Quota) worker.Quota {
	one := q[key]
	if one == nil {
		one = new(liveQuota)
		q[key] = one
	}
	one.of = append(one.of, of)
	one.take(cfg)
	return worker.Quota{Key: key, Spec: func() meter.Spec { return *one.spec.Load() }}
}

func (q *liveQuota) take(cfg *config.Config) {
	for _, of := range q.of {
		if now := of(cfg); now != nil {
			spec := now.Spec().Promise()
			q.spec.Store(&spec)
			return
		}
	}
}

// take has the configuration's take effect. Those that are gone from it stay.
func (q liveQuotas) take(cfg *config.Config) {
	for _, one := range q {
		one.take(cfg)
	}
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
			var err error
			if o.Quotas[name][platform], err = s.quotas.addOf(cfg, name, platform, shared.Quota.Name); err != nil {
				return err
			}
		}
		for category, c := range cfg.Limits.Categories {
			if c.Throughput != nil {
				o.Throughputs[name][category] = s.quotas.add(cfg, "category/"+throttle.Escape(name)+"/"+throttle.Escape(category),
					func(cfg *config.Config) *config.Quota { return cfg.Limits.Categories[category].Throughput })
			}
		}
	}
	if len(s.quotas) > 0 {
		o.Meter = s.meter
	}
	return nil
}

// addOf answers the quota of an app's provider, of its own or by its name.
func (q liveQuotas) addOf(cfg *config.Config, app string, platform push.Platform, name string) (worker.Quota, error) {
	if name != "" {
		return q.add(cfg, "quota/"+throttle.Escape(name), func(cfg *config.Config) *config.Quota {
			named, there := cfg.Limits.Quotas[name]
			if !there {
				return nil
			}
			return &named.Quota
		}), nil
	}
	of := app
	if platform == push.FCM { // it is the project's, whichever of its apps sends
		var err error
		if of, err = cfg.Apps[app].FCM.Project(); err != nil {
			return worker.Quota{}, err
		}
	}
	return q.add(cfg, string(platform)+"/"+throttle.Escape(of), func(cfg *config.Config) *config.Quota {
		if own := cfg.Apps[app].Shared()[platform].Quota; own != nil && own.Name == "" {
			return &own.Quota
		}
		return nil
	}), nil
}
