package operate

import (
	"cmp"
	"context"
	"slices"

	"github.com/pushpace/pushpace/worker/route"
)

// MostQuotas bounds the quotas that RecentQuotas reads.
const MostQuotas = 50

// A RecentQuota is the status of a quota, read recently.
type RecentQuota struct {
	QuotaStatus
	// Name is the quota's name in limits.quotas; "" for a quota of another section.
	Name string
	// Known is the live workers' state of the quota; nil if no worker reports it.
	Known *route.QuotaStatus
}

// RecentQuotas returns recently read quotas. Of the first MostQuotas it returns the ones that the
// principal sees. more is the number of further quotas of all apps; 0 for a principal of some apps.
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
	configured, _ := o.s.with.Quotas() // unknown quotas are left out
	if o.SeesAll() {
		more = max(0, len(configured.InUse())-MostQuotas)
	}
	return o.recentOf(configured, inForce, overview.Quotas), more, nil
}

// recentOf returns the quotas in force that the principal sees, with the workers' states.
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
