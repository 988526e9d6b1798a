package app

import (
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker"
)

// limitTogether configures the quotas and throughputs of each app. Without any, the worker gets
// no meter.
func (s *System) limitTogether(o *worker.Options, cfg *config.Config) error {
	o.Quotas, o.Throughputs, o.InFlight = map[string]map[push.Platform]worker.Quota{}, map[string]map[string]worker.Quota{}, map[string]map[push.Platform]int{}
	for name, app := range cfg.Apps {
		o.Quotas[name], o.Throughputs[name], o.InFlight[name] = map[push.Platform]worker.Quota{}, map[string]worker.Quota{}, map[push.Platform]int{}
		for _, p := range app.Providers() {
			o.InFlight[name][p.Platform] = p.Concurrency
			if p.Quota == nil {
				continue
			}
			key, err := operate.ProviderQuotaKey(name, &p)
			if err != nil {
				return err
			}
			o.Quotas[name][p.Platform] = worker.Quota{Key: key, Spec: s.quotas.Spec(key, s.limits)}
		}
		for category, c := range cfg.Limits.Categories {
			if c.Throughput != nil {
				key := operate.CategoryQuotaKey(name, category)
				o.Throughputs[name][category] = worker.Quota{Key: key, Spec: s.quotas.Spec(key, s.limits)}
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

// guardDevices applies the configured device limit. If the configuration no longer has one, the
// last one stays.
func (s *System) guardDevices(cfg *config.Config) {
	if d := cfg.Limits.Device; d != nil {
		spec := d.Spec()
		s.device.Store(&spec)
	}
}
