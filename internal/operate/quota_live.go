package operate

import (
	"sync/atomic"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/meter"
)

// LiveQuotas are the quotas of a running process by key. Take and overrides change them.
type LiveQuotas map[string]*liveQuota

type liveQuota struct {
	configured atomic.Pointer[Quota]
	inForce    atomic.Pointer[quotaInForce]
}

// quotaInForce caches a quota's specification at an override's rate; the zero rate
// overrides nothing.
type quotaInForce struct {
	of   *Quota
	rate throttle.Rate
	spec meter.Spec
}

// NewLiveQuotas returns a configuration's quotas. Its errors are ConfiguredQuotas'.
func NewLiveQuotas(cfg *config.Config) (LiveQuotas, error) {
	all, err := ConfiguredQuotas(cfg)
	l := LiveQuotas{}
	for key, q := range all {
		l[key] = new(liveQuota)
		l[key].configured.Store(&q)
	}
	return l, err
}

// Take puts a new configuration's quotas in force. Quotas that it lacks stay unchanged.
func (l LiveQuotas) Take(cfg *config.Config) {
	all, _ := ConfiguredQuotas(cfg) // quotas that cannot be read stay unchanged
	for key, q := range all {
		if one := l[key]; one != nil {
			one.configured.Store(&q)
		}
	}
}

// List returns the quotas as configured.
func (l LiveQuotas) List() Quotas {
	var all Quotas
	for _, one := range l {
		all = append(all, *one.configured.Load())
	}
	return all
}

// Spec returns a function that returns the specification in force of the quota with this key.
func (l LiveQuotas) Spec(key string, policies *limits.Policies) func() meter.Spec {
	one := l[key]
	return func() meter.Spec {
		q := one.configured.Load()
		rate, _ := policies.Quota(key)
		known := one.inForce.Load()
		if known == nil || known.of != q || known.rate != rate {
			known = &quotaInForce{q, rate, q.InForce(rate).Spec().Promise()}
			one.inForce.Store(known)
		}
		return known.spec
	}
}
