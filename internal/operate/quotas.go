package operate

import (
	"cmp"
	"context"
	"slices"

	"github.com/pushpace/pushpace/worker/route"
)

// MostQuotas is how many of the quotas RecentQuotas reads.
const MostQuotas = 50

// A RecentQuota is what is in force of a quota, as it was not long ago.
type RecentQuota struct {
	QuotaStatus
	// Name is that below limits.quotas; "" for one that has none there.
	Name string
	// Known is what the workers that are alive know of it; nil for nothing.
	Known *route.QuotaStatus
}

// RecentQuotas returns the first ones of what all workers together may do, of what it
// sees, as they were not long ago, and how many more there are, of all apps; 0 for a
// bearer of some.
func (o *Operator) RecentQuotas(ctx context.Context) (list []RecentQuota, more int, err error) {
	if err := o.may(Look); err != nil {
		return nil, 0, err
	}
	overview, err := o.s.overview.get(ctx)
	if err != nil {
		return nil, 0, err
	}
	inForce, err := o.s.quotas.get(ctx)
	if err != nil {
		return nil, 0, err
	}
	configured, _ := o.s.with.Quotas() // of those that are not known, nothing is told
	if o.SeesAll() {
		more = max(0, len(configured.InUse())-MostQuotas)
	}
	return o.recentOf(configured, inForce, overview.Quotas), more, nil
}

// recentOf returns those in force that it sees, with what the workers know of them.
func (o *Operator) recentOf(configured Quotas, inForce []QuotaStatus, known []route.QuotaStatus) (list []RecentQuota) {
	its := o.quotasOf(configured)
	for _, status := range inForce {
		of, err := its.Find(status.Quota)
		if err != nil {
			continue
		}
		status.Apps = of.Apps
		one := RecentQuota{QuotaStatus: status, Name: of.Name}
		for i := range known {
			if known[i].Key == status.Quota {
				one.Known = &known[i]
			}
		}
		list = append(list, one)
	}
	return list
}

func (s *Service) readQuotas(ctx context.Context) ([]QuotaStatus, error) {
	all, err := s.with.Quotas()
	if err != nil {
		return nil, err
	}
	all = all.InUse()
	slices.SortFunc(all, func(a, b Quota) int { return cmp.Compare(a.Key, b.Key) })
	r := QuotaReader{Overrides: s.with.Overrides, Policies: s.with.Limits, Meter: s.with.Meter}
	return r.Read(ctx, all[:min(len(all), MostQuotas)])
}
