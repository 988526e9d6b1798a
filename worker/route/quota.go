package route

import (
	"context"
	"log/slog"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/clock"
)

// A Quota bounds the pushes of all workers together.
type Quota struct {
	// Key names the quota, such as fcm/PROJECT. Apps with the same key share it.
	Key string
	// Spec returns the current limit, which operators may change at run time.
	Spec func() meter.Spec
}

// quotas are the pools of units that a worker's pushes cost.
type quotas struct {
	// Units are the pools of quotas and throughputs.
	Units       *meter.Pools
	pools       map[string]*meter.Pool // by key
	throughputs map[string]map[string]*meter.Pool
	unknown     map[string]*clock.Trouble // by key; only LogTroubles' goroutine uses it
}

func newQuotas(c *Config) quotas {
	q := quotas{meter.NewPools(c.Meter), map[string]*meter.Pool{}, make(map[string]map[string]*meter.Pool, len(c.Throughputs)), map[string]*clock.Trouble{}}
	for app, categories := range c.Throughputs {
		q.throughputs[app] = make(map[string]*meter.Pool, len(categories))
		for category, quota := range categories {
			q.throughputs[app][category] = q.pool(quota)
		}
	}
	return q
}

// pool returns the pool of the quota; nil without a Spec.
func (q quotas) pool(quota Quota) *meter.Pool {
	if quota.Spec == nil {
		return nil
	}
	p := q.Units.Of(quota.Key, quota.Spec)
	q.pools[quota.Key] = p
	return p
}

// logQuotas logs quotas with unknown remaining units.
func (rs *Routes) logQuotas(ctx context.Context) {
	for _, s := range rs.Units.Stats() {
		t := rs.unknown[s.Key]
		if t == nil {
			t = &clock.Trouble{
				Log: rs.RedisLog, Begins: "the remaining units of a quota are unknown: its notifications wait on the queue",
				Ends: "the remaining units of a quota are known again",
			}
			rs.unknown[s.Key] = t
		}
		t.Failing(ctx, s.Err, slog.String("quota", s.Key))
	}
}

// Throughput returns the pool of the category; nil for an unlimited one.
func (rs *Routes) Throughput(app, category string) *meter.Pool { return rs.throughputs[app][category] }

// A QuotaStatus is a worker's view of a quota. The zero value means no quota.
type QuotaStatus struct {
	Key  string `json:"key"`
	Rate string `json:"rate"`
	// Used is the fraction of the rate that this worker uses. Waiting is how many of its jobs
	// wait for the quota.
	Used    float64 `json:"used"`
	Waiting int     `json:"waiting"`
	// Until is when units are available again; zero if they are now.
	Until time.Time `json:"until,omitzero"`
	// Error is the reason why the remaining units are unknown.
	Error string `json:"error,omitempty"`
}

// Binds reports whether the quota makes jobs wait.
func (q QuotaStatus) Binds() bool { return q.Waiting > 0 || !q.Until.IsZero() || q.Error != "" }

// QuotaOf returns the status of a pool; the zero value for nil.
func QuotaOf(p *meter.Pool) QuotaStatus {
	if p == nil {
		return QuotaStatus{}
	}
	return QuotaStatusOf(p.Stats())
}

// QuotaStatusOf converts a pool's statistics to a status.
func QuotaStatusOf(s meter.Stats) QuotaStatus {
	return QuotaStatus{s.Key, s.Rate, s.Used, s.Waiting, s.Free, CauseOf(s.Err)}
}

// OverQuota returns how a job returns to the queue if its quota has no units or cannot be read.
func OverQuota(q QuotaStatus) store.Return {
	if q.Error != "" {
		return store.Return{Why: store.Unmetered, Key: q.Key, Detail: q.Error}
	}
	return store.Return{Why: store.OverQuota, Key: q.Key, Detail: q.Rate}
}
