package worker

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/base/logdedup"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/route"
)

// units takes and returns the units that pushes cost: of providers' quotas, categories' throughputs and
// devices' limits. Units of quotas and throughputs are leased in batches. A device's limit counts each
// push just before the send, as few devices get a second push within a lease.
type units struct {
	*Options
	pools   *meter.Pools
	repeats *logdedup.Log
}

// take takes units for the pushes to all due targets, or none: if a pool has too few, it skips these
// targets and returns false.
func (u units) take(ctx context.Context, d *delivery) bool {
	if !d.metered {
		return true
	}
	now := time.Now()
	needs := d.shortage(now)
	if len(needs) == 0 {
		return true
	}
	until, lacking := u.pools.Take(ctx, needs, d.rank(meter.Ordinary), route.MaxWait)
	for i := range d.outcomes {
		switch {
		case !d.short(i, now):
		case lacking != nil:
			d.outcomes[i].skip = skip{reason: noUnits, pool: lacking}
		case spend(needs, d.costs(i)):
			d.outcomes[i].until = until
		}
	}
	if lacking == nil {
		u.pools.Return(needs, until) // left over, as Take lowered the need of another pool
	}
	return lacking == nil
}

// renew takes new units for a push that is about to start, if its units have expired. If limits apply, it
// waits at most departureTimeout, as the admission is valid for no longer.
func (u units) renew(ctx context.Context, d *delivery, i int) bool {
	o := &d.outcomes[i]
	if !d.short(i, time.Now()) {
		return true
	}
	wait := route.MaxWait
	if len(d.scopes) > 0 {
		wait = departureTimeout
	}
	until, lacking := u.pools.Take(ctx, d.costs(i), d.rank(meter.Begun), wait)
	if o.until = until; lacking != nil {
		o.skip = skip{reason: noUnits, pool: lacking}
	}
	return lacking == nil
}

// count counts a push in the limit of the target's device, or skips the target.
func (u units) count(ctx context.Context, d *delivery, i int) {
	o := &d.outcomes[i]
	if u.Device == nil || o.counted {
		return
	}
	answer, err := u.Meter.Take(ctx, deviceKey(&d.Targets[i]), u.Device(), meter.Ask{Least: 1, Most: 1})
	switch {
	case err != nil:
		if ctx.Err() == nil { // logged once, as each job retries every few seconds
			u.repeats.Write(ctx, u.RedisLog, slog.LevelWarn, "a device's limit cannot be checked, and its notifications wait", nil, slog.String("id", d.ID), slog.Any("error", err))
		}
		o.skip = skip{reason: deviceUnmetered, cause: route.CauseOf(err), left: store.RetryDelay}
	case answer.Units == 0: // an operator may raise the limit meanwhile
		o.skip = skip{reason: overDevice, rule: answer.Rule, left: min(answer.Left, route.OperatorRecheck)}
	default:
		o.counted = true
	}
}

// giveBack gives back the units of pushes that were certainly not sent.
func (u units) giveBack(ctx context.Context, d *delivery) {
	for i := range d.outcomes {
		u.giveOneBack(ctx, d, i)
	}
}

// giveOneBack is giveBack for one target.
func (u units) giveOneBack(ctx context.Context, d *delivery, i int) {
	o := &d.outcomes[i]
	if !o.until.IsZero() {
		u.pools.Return(d.costs(i), o.until)
		o.until = time.Time{}
	}
	if !o.counted {
		return
	}
	o.counted = false
	_, err := u.Meter.Take(context.WithoutCancel(ctx), deviceKey(&d.Targets[i]), u.Device(), meter.Ask{Most: -1})
	if err != nil {
		u.repeats.Write(ctx, u.RedisLog, slog.LevelWarn, "a device's limit counts a push that was not sent", nil, slog.String("id", d.ID), slog.Any("error", err))
	}
}

// deviceKey returns the meter's key of a device, which holds a hash in place of the token. A FID
// and a token have different keys even if the texts are equal: their equality does not show that
// both are the same device.
func deviceKey(t *push.Target) string {
	kind := string(t.Platform)
	if t.FID != "" {
		kind += "/fid"
	}
	return fmt.Sprintf("device/%s/%.16x", kind, sha256.Sum256([]byte(t.Device().Address())))
}

// costs returns the pools of which a push to the target costs a unit.
func (d *delivery) costs(i int) (needs []meter.Need) {
	for _, pool := range [...]*meter.Pool{d.routes[i].Quota, d.throughput} {
		if pool != nil {
			needs = append(needs, meter.Need{Pool: pool, Units: 1})
		}
	}
	return needs
}

// short reports whether the target is due, costs units, and holds no valid units.
func (d *delivery) short(i int, now time.Time) bool {
	o := &d.outcomes[i]
	return d.routes[i] != nil && o.due() && !now.Before(o.until) && (d.throughput != nil || d.routes[i].Quota != nil)
}

// shortage returns the units that all short targets need together.
func (d *delivery) shortage(now time.Time) (needs []meter.Need) {
	for i := range d.outcomes {
		if !d.short(i, now) {
			continue
		}
		for _, n := range d.costs(i) {
			if at := slices.IndexFunc(needs, func(o meter.Need) bool { return o.Pool == n.Pool }); at >= 0 {
				needs[at].Units++
			} else {
				needs = append(needs, n)
			}
		}
	}
	return needs
}

// spend subtracts the costs from units and reports true, or changes nothing if a unit is missing: a
// delivery may get units for only some of its targets.
func spend(units, costs []meter.Need) bool {
	at := func(n meter.Need) *meter.Need {
		return &units[slices.IndexFunc(units, func(o meter.Need) bool { return o.Pool == n.Pool })]
	}
	for _, n := range costs {
		if at(n).Units < n.Units {
			return false
		}
	}
	for _, n := range costs {
		at(n).Units -= n.Units
	}
	return true
}

// rank returns the delivery's rank in a pool: meter.Urgent if it is critical, else the given rank.
func (d *delivery) rank(others meter.Rank) meter.Rank {
	if d.Priority == push.Critical {
		return meter.Urgent
	}
	return others
}
