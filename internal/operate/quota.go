package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/pushpace/pushpace/internal/base/suggest"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/meter"
)

// A Quota is a configured limit of all workers together, with its key in the meter.
type Quota struct {
	Key  string
	Name string   // its name in limits.quotas, or ""
	Apps []string // that share it
	config.Quota
	// Unnamed advises on how an app can name the quota; "" if an app names it.
	Unnamed string
}

// Quotas are the quotas of a configuration.
type Quotas []Quota

// NamedQuotaKey returns the key of a quota below limits.quotas.
func NamedQuotaKey(name string) string { return "quota/" + throttle.Escape(name) }

// WithUnnamed adds the configured quotas that no app names, so that Find can report them as unused.
func (all Quotas) WithUnnamed(cfg *config.Config) Quotas {
	for name, remedy := range cfg.UnnamedQuotas() {
		all = append(all, Quota{Key: NamedQuotaKey(name), Name: name, Quota: cfg.Limits.Quotas[name].Quota, Unnamed: remedy})
	}
	return all
}

// InUse returns the quotas that an app names.
func (all Quotas) InUse() Quotas {
	return slices.DeleteFunc(slices.Clone(all), func(q Quota) bool { return q.Unnamed != "" })
}

// Find returns the quota with this key, or this name below limits.quotas. It fails if no
// app names the quota.
func (all Quotas) Find(name string) (Quota, error) {
	var names []string
	for _, q := range all {
		if name == q.Key || name == cmp.Or(q.Name, q.Key) {
			if q.Unnamed != "" {
				return Quota{}, fmt.Errorf("quota %s is in the configuration, but %s", q.Name, q.Unnamed)
			}
			return q, nil
		}
		names = append(names, cmp.Or(q.Name, q.Key))
	}
	slices.Sort(names)
	return Quota{}, fmt.Errorf("quota is not configured%s", suggest.Hint(name, names))
}

// Check returns an error if the quota cannot have this rate.
func (q Quota) Check(rate throttle.Rate) error {
	if err := q.At(rate).Spec().Promise().Validate(); err != nil {
		return fmt.Errorf("rate: %w", err)
	}
	return nil
}

// InForce returns the quota under an override's rate. It ignores the zero rate, and a rate
// that Check rejects.
func (q Quota) InForce(rate throttle.Rate) config.Quota {
	if rate == (throttle.Rate{}) || q.Check(rate) != nil {
		return q.Quota
	}
	return q.At(rate)
}

// A QuotaStatus is a quota in force.
type QuotaStatus struct {
	Quota string   `json:"quota"`
	Apps  []string `json:"apps"`
	Limit string   `json:"limit"` // in force, in words
	// InForce is Limit as a value.
	InForce config.Quota  `json:"-"`
	Source  limits.Source `json:"source"`
	Until   time.Time     `json:"until,omitzero"` // the end of the override
	By      string        `json:"by,omitempty"`
	// Free of AtOnce units are available now. A bucket refills all the time, a window
	// when its period ends.
	Free   int `json:"free"`
	AtOnce int `json:"at_once"`
}

// A QuotaReader reads the quotas in force.
type QuotaReader struct {
	Overrides *limits.Overrides
	Policies  *limits.Policies
	Meter     meter.Meter
}

// Read returns the status of each quota in use, sorted by key.
func (r *QuotaReader) Read(ctx context.Context, all Quotas) ([]QuotaStatus, error) {
	all = all.InUse()
	statuses := make([]QuotaStatus, 0, len(all))
	for _, q := range all {
		s := QuotaStatus{Quota: q.Key, Apps: q.Apps, Source: limits.FromConfiguration}
		_, _, override, err := r.Overrides.InForce(ctx, r.Policies, limits.Level{Quota: q.Key})
		if err != nil {
			return nil, err
		}
		var rate throttle.Rate
		if override != nil && len(override.Policy.Rates) == 1 && q.Check(override.Policy.Rates[0]) == nil {
			rate = override.Policy.Rates[0]
			s.Source, s.Until, s.By = limits.FromQuota, override.Until, override.By
		}
		inForce := q.InForce(rate)
		s.Limit, s.InForce = inForce.Words(), inForce
		spec := inForce.Spec().Promise()
		s.AtOnce = spec.AtOnce()
		if s.Free, err = freeUnits(ctx, r.Meter, q.Key, spec); err != nil {
			return nil, err
		}
		statuses = append(statuses, s)
	}
	slices.SortFunc(statuses, func(a, b QuotaStatus) int { return cmp.Compare(a.Quota, b.Quota) })
	return statuses, nil
}

// freeUnits returns how many units are available now. It takes no unit.
func freeUnits(ctx context.Context, m meter.Meter, key string, s meter.Spec) (int, error) {
	var failed error
	n := sort.Search(s.AtOnce(), func(n int) bool {
		answer, err := m.Take(ctx, key, s, meter.Ask{Least: n + 1})
		failed = cmp.Or(failed, err)
		return err != nil || answer.Left > 0
	})
	return n, failed
}
