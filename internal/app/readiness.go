package app

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/telemetry/health"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/worker/control"
)

// checks returns the conditions of readiness.
func (s *System) checks() []health.Check {
	checks := []health.Check{{Name: "redis", Probe: healthy(s.watch), Warning: nodes(s.watch)}}
	losses := health.Check{Name: "losses", Warning: s.lost}
	if len(s.Senders) == 0 { // a process without a worker only accepts notifications
		return append(checks, losses)
	}
	if s.limitsWatch != nil {
		checks = append(checks, health.Check{Name: "limits_redis", Probe: healthy(s.limitsWatch), Warning: nodes(s.limitsWatch)})
	}
	return append(checks, health.Check{Name: "credentials", Probe: s.Senders.ended}, health.Check{Name: "queue", Probe: s.idle, Warning: s.pulls},
		health.Check{Name: "limits", Warning: s.unchecked}, health.Check{Name: "providers", Warning: s.inTrouble}, losses)
}

// lossWithin bounds the reading of a loss: the check redis reports an unreachable Redis.
const lossWithin = 500 * time.Millisecond

// lost describes the data that Redis has lost, until an operator confirms the loss.
func (s *System) lost(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, lossWithin)
	defer cancel()
	l, err := control.ReadLoss(ctx, s.client, s.Records.Prefix())
	if err != nil || l == nil {
		return ""
	}
	return "Redis has lost data: " + words.Lost(l) + ", noticed " + l.At.Format(time.RFC3339) + ", and not confirmed"
}

// unchecked returns why limits cannot be checked, such as a Redis that refuses the limiter's
// commands. It only warns: other nodes of a Cluster serve their users, and only the next
// notification shows the recovery, so that an idle worker would stay unready.
func (s *System) unchecked(context.Context) string {
	stats := s.limiter.Stats()
	if stats.Since.IsZero() {
		return ""
	}
	on := ""
	if stats.Node != "" {
		on = " on " + stats.Node
	}
	return "cannot be checked" + on + " since " + stats.Since.UTC().Format(time.TimeOnly) + ": " + stats.Cause.Error()
}

// inTrouble names the providers that notifications wait for. It only warns: another
// process would not reach these providers either.
func (s *System) inTrouble(context.Context) string {
	w := s.worker.Load()
	if w == nil {
		return ""
	}
	var all []string
	for _, r := range w.Routes() {
		if closed := words.Route(&r, time.Now()); closed != nil {
			all = append(all, closed.String())
		}
	}
	return strings.Join(all, "; ")
}

// healthy probes a Redis. The log has the details.
func healthy(watch *redisconn.Watch) func(context.Context) string {
	return func(ctx context.Context) string {
		if trouble := watch.Check(ctx); trouble != redisreply.None {
			return trouble.Text()
		}
		return ""
	}
}

// nodes returns the unreachable nodes of a Cluster that otherwise serves.
func nodes(watch *redisconn.Watch) func(context.Context) string {
	return func(context.Context) string {
		var all []string
		for _, node := range watch.Status().Nodes {
			all = append(all, node.Address+" "+node.Trouble.Text())
		}
		return strings.Join(all, "; ")
	}
}

// idle probes the worker's pulls. While a node of a Cluster is in trouble, no other
// process would get the node's jobs either.
func (s *System) idle(ctx context.Context) string {
	if s.worker.Load() != nil && len(s.watch.Status().Nodes) > 0 {
		return ""
	}
	return s.pulls(ctx)
}

// pulls reports that the worker gets no jobs; the log has the reason.
func (s *System) pulls(context.Context) string {
	switch w := s.worker.Load(); {
	case w == nil:
		return "the worker has not started"
	case !w.Pulls():
		return "the worker gets no jobs from Redis"
	}
	return ""
}

// ended returns the apps and platforms with expired credentials.
func (all Senders) ended(context.Context) string {
	var over []string
	for _, app := range slices.Sorted(maps.Keys(all)) {
		for _, platform := range slices.Sorted(maps.Keys(all[app])) {
			ending, ok := all[app][platform].(interface{ CredentialExpiry() (time.Time, bool) })
			if !ok {
				continue
			}
			if at, ends := ending.CredentialExpiry(); ends && time.Now().After(at) {
				over = append(over, app+"/"+string(platform))
			}
		}
	}
	if len(over) == 0 {
		return ""
	}
	return "the certificate has ended: " + strings.Join(over, ", ")
}
