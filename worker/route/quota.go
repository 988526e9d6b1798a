package route

import (
	"context"
	"log/slog"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/clock"
)

// A Quota is what all workers together may send of something.
type Quota struct {
	// Key is whose it is, as fcm/PROJECT: apps that share a provider's quota share it.
	Key string
	// Spec returns what is allowed now: operators change it while it runs.
	Spec func() meter.Spec
}

// quotas are what the pushes of a worker cost.
type quotas struct {
	// Units are what quotas and throughputs allow.
	Units       *meter.Pools
	pools       map[string]*meter.Pool // by key
	throughputs map[string]map[string]*meter.Pool
	unknown     map[string]*clock.Trouble // of the goroutine that calls LogTroubles, by key
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

// pool returns that of the quota; nil where there is none.
func (q quotas) pool(quota Quota) *meter.Pool {
	if quota.Spec == nil {
		return nil
	}
	p := q.Units.Of(quota.Key, quota.Spec)
	q.pools[quota.Key] = p
	return p
}

// logQuotas has the log tell of what nobody knows how much is left.
func (rs *Routes) logQuotas(ctx context.Context) {
	for _, s := range rs.Units.Stats() {
		t := rs.unknown[s.Key]
		if t == nil {
			t = &clock.Trouble{
				Log: rs.RedisLog, Begins: "nobody can tell what is left of a quota: what costs a unit of it waits on the queue",
				Ends: "what is left of a quota is known again",
			}
			rs.unknown[s.Key] = t
		}
		t.Failing(ctx, s.Err, slog.String("quota", s.Key))
	}
}

// Throughput returns what the pushes of a category cost besides; nil for nothing.
func (rs *Routes) Throughput(app, category string) *meter.Pool { return rs.throughputs[app][category] }

// A QuotaStatus is what a worker knows of a quota. The zero value is that there is none.
type QuotaStatus struct {
	Key  string `json:"key"`
	Rate string `json:"rate"`
	// Used is what share of the rate this worker uses, and Waiting how many wait in it
	// for the quota.
	Used    float64 `json:"used"`
	Waiting int     `json:"waiting"`
	// Until is when there is something again; zero when there is.
	Until time.Time `json:"until,omitzero"`
	// Error is why nobody knows what is left.
	Error string `json:"error,omitempty"`
}

// Binds reports whether something waits for the quota.
func (q QuotaStatus) Binds() bool { return q.Waiting > 0 || !q.Until.IsZero() || q.Error != "" }

// QuotaOf returns what is known of a pool; nil is none.
func QuotaOf(p *meter.Pool) QuotaStatus {
	if p == nil {
		return QuotaStatus{}
	}
	return ToldOf(p.Stats())
}

// ToldOf returns what is told of what is known.
func ToldOf(s meter.Stats) QuotaStatus {
	return QuotaStatus{s.Key, s.Rate, s.Used, s.Waiting, s.Free, CauseOf(s.Err)}
}

// OverQuota returns the return of a job whose quota has nothing left, or cannot be read.
func OverQuota(q QuotaStatus) store.Return {
	if q.Error != "" {
		return store.Return{Why: store.Unmetered, Key: q.Key, Detail: q.Error}
	}
	return store.Return{Why: store.OverQuota, Key: q.Key, Detail: q.Rate}
}
