package quotas

import (
	"sync/atomic"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/meter"
)

// Live are the quotas of a running process, by key.
type Live map[string]*live

// A live quota may change while the workers run, by the configuration and by an override.
type live struct {
	configured atomic.Pointer[Quota]
	inForce    atomic.Pointer[inForce]
}

// inForce is a quota's specification at a rate that overrides its own; the zero rate
// overrides nothing.
type inForce struct {
	of   *Quota
	rate throttle.Rate
	spec meter.Spec
}

// NewLive returns the quotas of a configuration. Its errors are those of Of.
func NewLive(cfg *config.Config) (Live, error) {
	all, err := Of(cfg)
	l := Live{}
	for key, q := range all {
		l[key] = new(live)
		l[key].configured.Store(&q)
	}
	return l, err
}

// Take puts the quotas of a configuration in force. Those that are gone from it stay.
func (l Live) Take(cfg *config.Config) {
	all, _ := Of(cfg) // those that are left out stay too
	for key, q := range all {
		if one := l[key]; one != nil {
			one.configured.Store(&q)
		}
	}
}

// List returns them as they are configured.
func (l Live) List() Quotas {
	var all Quotas
	for _, one := range l {
		all = append(all, *one.configured.Load())
	}
	return all
}

// Spec returns what is in force of the quota of that key, each time it is called.
func (l Live) Spec(key string, policies *limits.Policies) func() meter.Spec {
	one := l[key]
	return func() meter.Spec {
		q := one.configured.Load()
		rate, _ := policies.Quota(key)
		known := one.inForce.Load()
		if known == nil || known.of != q || known.rate != rate {
			known = &inForce{q, rate, q.InForce(rate).Spec().Promise()}
			one.inForce.Store(known)
		}
		return known.spec
	}
}
