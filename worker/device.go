package worker

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"

	"github.com/pushpace/pushpace/internal/base/repeats"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/queue"
	"github.com/pushpace/pushpace/worker/route"
)

// devices count the pushes to each device.
type devices struct {
	*Options
	repeats *repeats.Log
}

// limited reports whether devices have a limit.
func (v devices) limited() bool { return v.Device != nil }

// guard counts a push to the target's device, or has the target wait.
func (v devices) guard(ctx context.Context, d *delivery, i int) {
	o := &d.outcomes[i]
	answer, err := v.Meter.Take(ctx, deviceKey(&d.Targets[i]), v.Device(), meter.Ask{Least: 1, Most: 1})
	switch {
	case err != nil:
		if ctx.Err() == nil { // each tries again every few seconds
			v.repeats.Tell(ctx, v.RedisLog, slog.LevelWarn, "nobody can tell what a device may get, and what is for it waits", nil, slog.String("id", d.ID), slog.Any("error", err))
		}
		o.skip = skip{reason: deviceUnmetered, cause: route.CauseOf(err), left: queue.Again}
	case answer.Units == 0: // the spec may change meanwhile
		o.skip = skip{reason: overDevice, rule: answer.Rule, left: min(answer.Left, longestLook)}
	}
}

// unguard gives back what was counted for a push that certainly did not leave.
func (v devices) unguard(ctx context.Context, d *delivery, i int) {
	if o := &d.outcomes[i]; o.sent && o.Reason != providers.DialFailed {
		return
	}
	_, err := v.Meter.Take(context.WithoutCancel(ctx), deviceKey(&d.Targets[i]), v.Device(), meter.Ask{Most: -1})
	if err != nil {
		v.repeats.Tell(ctx, v.RedisLog, slog.LevelWarn, "a device's limit counts what was not sent", nil, slog.String("id", d.ID), slog.Any("error", err))
	}
}

// deviceKey is the meter's key of a device, which does not tell its token.
func deviceKey(t *push.Target) string {
	return fmt.Sprintf("device/%s/%.16x", t.Platform, sha256.Sum256([]byte(t.Token)))
}
