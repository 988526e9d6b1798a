package limits_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// An override of a user or a quota applies in all followers until it is removed or ends by
// Redis's clock.
func TestFollowersApplyOverrides(t *testing.T) {
	redistest.OverAll(t, func(t *testing.T, client redis.UniversalClient, prefix string) {
		ctx := t.Context()
		o := limits.NewOverrides(client, prefix, 0)
		ok(t, o.Set(ctx, limits.Override{Level: limits.Level{User: "early"}, Policy: rate(1, time.Hour), By: "ann"}))
		all := []*follower{follow(t, o), follow(t, limits.NewOverrides(client, prefix, 0))}
		ok(t, o.Set(ctx, limits.Override{Level: limits.Level{User: "u"}, Policy: rate(1, time.Minute), By: "ann"}))
		for _, f := range all {
			f.next(t, "an override is in force", func() bool { return f.period("u") == time.Minute })
			if f.period("early") != time.Hour {
				t.Errorf("what was set before is not in force")
			}
		}
		kiosk := limits.Level{App: "kiosk", User: "u"}
		ok(t, o.Set(ctx, limits.Override{Level: kiosk, Policy: rate(1, 3*time.Hour), By: "ann"}))
		for _, f := range all {
			f.next(t, "one of an app is in force", func() bool { return f.periodIn("kiosk", "u") == 3*time.Hour })
			if f.period("u") != time.Minute {
				t.Errorf("one of an app binds another")
			}
		}
		_, err := o.Unset(ctx, limits.Level{User: "u"}, "ann")
		ok(t, err)
		_, err = o.Unset(ctx, kiosk, "ann")
		ok(t, err)
		ends := time.Now().Add(2 * time.Second)
		const key = "category/shop/a%2Fb" // Level.Key escapes its slashes
		slow := throttle.Rate{Count: 300_000, Period: time.Minute}
		ok(t, o.Set(ctx, limits.Override{Level: limits.Level{User: "brief"}, Policy: rate(1, 2*time.Hour), Until: ends, By: "ann"}))
		ok(t, o.Set(ctx, limits.Override{Level: limits.Level{Quota: key}, Policy: rate(slow.Count, slow.Period), By: "ann"}))
		for _, f := range all {
			f.next(t, "its removal is in force", func() bool { return f.period("u") == time.Second })
			f.next(t, "a brief one is in force", func() bool { return f.period("brief") == 2*time.Hour || time.Now().After(ends) })
			f.next(t, "a quota's rate is in force", func() bool { r, _ := f.Quota(key); return r == slow })
			if _, found := f.Quota("category/shop/a"); found || f.period("u") != time.Second {
				t.Error("a quota's rate concerns others")
			}
		}
		for _, f := range all {
			eventually.Holds(t, "it ends", func() bool { return f.period("brief") == time.Second })
		}
		want := []string{"set user=u", "set app=kiosk&user=u", "unset user=u", "unset app=kiosk&user=u", "set user=brief", "set quota=" + url.QueryEscape(key), "ended user=brief"}
		for _, f := range all {
			eventually.Holds(t, "everybody hears of all", func() bool { return slices.Equal(f.why(), want) })
		}
		if got, err := o.Get(ctx, limits.Level{User: "brief"}); got != nil || err != nil {
			t.Errorf("it is kept: %+v, %v", got, err)
		}
		if newest, err := o.Log(ctx, 0, 100); err != nil || len(newest) != 8 || newest[0].Why != "ended" || newest[0].From == nil || newest[0].To != nil {
			t.Errorf("the log says %+v, %v", newest, err)
		}
		client.HSet(ctx, prefix+":{limits}:overrides", "quota=odd", `9-1 ann {"min_gap":"1s"}`) // rejected by Set
		if _, found := follow(t, o).Quota("odd"); found {
			t.Error("a policy without a rate is taken for a quota's")
		}
	})
}

// Followers reach the stored state after too many changes and after gaps in the log.
func TestFollowersCatchUpAfterGaps(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t).Client(t), redistest.Prefix()
	ctx := t.Context()
	o := limits.NewOverrides(client, prefix, 0)
	f := follow(t, o)
	many := func(n int, p throttle.Policy) []limits.Override {
		all := make([]limits.Override, n)
		for i := range all {
			all[i] = limits.Override{Level: limits.Level{User: fmt.Sprint("u", i)}, Policy: p, By: "ann"}
		}
		return all
	}
	const n = 15_000 // more than the log keeps
	ok(t, o.Import(ctx, many(n, rate(1, time.Minute))))
	eventually.Holds(t, "all are in force", func() bool {
		return f.period("u0") == time.Minute && f.period(fmt.Sprint("u", n-1)) == time.Minute
	})
	for _, gap := range []func(){
		func() { client.XTrimMaxLen(ctx, prefix+":{limits}:log", 1) }, // no gap: the last entry is there
		func() { client.Del(ctx, prefix+":{limits}:log") },
		func() { // failover to a replica without the last changes
			client.Del(ctx, prefix+":{limits}:log")
			client.XAdd(ctx, &redis.XAddArgs{Stream: prefix + ":{limits}:log", ID: "15000-1", Values: []string{"field", "user=x", "why", "unset", "by", "ann", "from", "", "to", ""}})
		},
	} {
		for _, p := range []throttle.Policy{rate(1, time.Hour), rate(1, time.Minute)} {
			gap()
			ok(t, o.Import(ctx, many(10, p)))
			eventually.Holds(t, "changes after a gap are in force", func() bool {
				return f.period("u0") == p.Rates[0].Period && f.period("u9") == p.Rates[0].Period
			})
		}
	}
	if f.period("u10") != time.Minute || f.failing() {
		t.Errorf("the others are not kept")
	}
	ok(t, client.Del(ctx, prefix+":{limits}:log", prefix+":{limits}:overrides").Err())
	eventually.Holds(t, "nothing is left", func() bool { return f.period("u10") == time.Second })
}

// While Redis is unreachable the limits stay and overrides end; afterwards followers catch up.
func TestFollowersKeepLimitsDuringOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.AppendOnly())
	ctx := t.Context()
	o := limits.NewOverrides(server.Client(t), "p", 0)
	f := follow(t, o)
	ok(t, o.Set(ctx, limits.Override{Level: limits.Level{User: "u"}, Policy: rate(1, time.Minute), By: "ann"}))
	ends := time.Now().Add(3 * time.Second)
	ok(t, o.Set(ctx, limits.Override{Level: limits.Level{User: "brief"}, Policy: rate(1, time.Minute), Until: ends, By: "ann"}))
	eventually.Holds(t, "in force", func() bool {
		return f.period("u") == time.Minute && (f.period("brief") == time.Minute || time.Now().After(ends))
	})
	server.Kill(t)
	eventually.Holds(t, "the outage is told", f.failing)
	if f.period("u") != time.Minute {
		t.Error("the override is forgotten while Redis is away")
	}
	eventually.Holds(t, "an end comes while Redis is away", func() bool { return f.period("brief") == time.Second })
	server.Restart(t)
	eventually.Holds(t, "it is over", func() bool { return !f.failing() })
	ok(t, o.Set(ctx, limits.Override{Level: limits.Level{User: "u"}, Policy: rate(1, time.Hour), By: "ann"}))
	f.next(t, "a change after it", func() bool { return f.period("u") == time.Hour })
}
