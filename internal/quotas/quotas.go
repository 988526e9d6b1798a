// Package quotas tells what all workers together may do, and what an operator may make
// of it while they run.
package quotas

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/pushpace/pushpace/internal/base/near"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/meter"
)

// A Quota is what is counted under one key of the meter, as it is configured.
type Quota struct {
	Key  string
	Name string   // of one of limits.quotas
	Apps []string // that share it
	config.Quota
	// Unnamed says that no app names it, and how one does; "" where an app names it.
	Unnamed string
}

// Quotas are those of a configuration.
type Quotas []Quota

// KeyOf is that of one of limits.quotas.
func KeyOf(name string) string { return "quota/" + throttle.Escape(name) }

// WithUnnamed returns these and, for Find to tell of, those of the configuration that no
// app names.
func (all Quotas) WithUnnamed(cfg *config.Config) Quotas {
	for name, remedy := range cfg.UnnamedQuotas() {
		all = append(all, Quota{Key: KeyOf(name), Name: name, Quota: cfg.Limits.Quotas[name].Quota, Unnamed: remedy})
	}
	return all
}

// InUse are those that an app names.
func (all Quotas) InUse() Quotas {
	return slices.DeleteFunc(slices.Clone(all), func(q Quota) bool { return q.Unnamed != "" })
}

// Find returns the one of that key, or of that name below limits.quotas, where an app
// names it.
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
	return Quota{}, fmt.Errorf("quota is none of the configuration's%s", near.Hint(name, names))
}

// Check reports what is wrong with a rate in the place of the configured one.
func (q Quota) Check(rate throttle.Rate) error {
	if err := q.At(rate).Spec().Promise().Validate(); err != nil {
		return fmt.Errorf("rate: %w", err)
	}
	return nil
}

// InForce returns what is where an override has that rate, the zero one for none. A rate
// that the quota, as it is configured now, cannot have is none.
func (q Quota) InForce(rate throttle.Rate) config.Quota {
	if rate == (throttle.Rate{}) || q.Check(rate) != nil {
		return q.Quota
	}
	return q.At(rate)
}

// A Status is what of a quota is in force.
type Status struct {
	Quota string   `json:"quota"`
	Apps  []string `json:"apps"`
	Limit string   `json:"limit"` // in force, as the configuration writes it
	// InForce is Limit as a value.
	InForce config.Quota  `json:"-"`
	Source  limits.Source `json:"source"`
	Until   time.Time     `json:"until,omitzero"` // when the override that it is from ends
	By      string        `json:"by,omitempty"`
	// Free of AtOnce are there at this instant: more of a bucket come back all the
	// time, of a window those of its period.
	Free   int `json:"free"`
	AtOnce int `json:"at_once"`
}

// A Reader reads what is in force.
type Reader struct {
	Overrides *limits.Overrides
	Policies  *limits.Policies
	Meter     meter.Meter
}

// Read returns the status of each that is in use, by its key.
func (r *Reader) Read(ctx context.Context, all Quotas) ([]Status, error) {
	all = all.InUse()
	statuses := make([]Status, 0, len(all))
	for _, q := range all {
		s := Status{Quota: q.Key, Apps: q.Apps, Source: limits.FromConfiguration}
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
		s.Limit, s.InForce = inForce.String(), inForce
		spec := inForce.Spec().Promise()
		s.AtOnce = spec.AtOnce()
		if s.Free, err = free(ctx, r.Meter, q.Key, spec); err != nil {
			return nil, err
		}
		statuses = append(statuses, s)
	}
	slices.SortFunc(statuses, func(a, b Status) int { return cmp.Compare(a.Quota, b.Quota) })
	return statuses, nil
}

// free returns how many units are there now, by looks that take none.
func free(ctx context.Context, m meter.Meter, key string, s meter.Spec) (int, error) {
	var failed error
	n := sort.Search(s.AtOnce(), func(n int) bool {
		answer, err := m.Take(ctx, key, s, meter.Ask{Least: n + 1})
		failed = cmp.Or(failed, err)
		return err != nil || answer.Left > 0
	})
	return n, failed
}
