package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/health"
)

// checks are what has to be so for the process to be ready.
func (s *system) checks() []health.Check {
	checks := []health.Check{{Name: "redis", Probe: answers(s.queue)}}
	if s.timelines != s.queue {
		checks = append(checks, health.Check{Name: "limits_redis", Probe: answers(s.timelines)})
	}
	if len(s.senders) > 0 {
		checks = append(checks, health.Check{Name: "credentials", Probe: s.senders.ended})
	}
	return checks
}

// answers probes a Redis. Why it fails is in the log.
func answers(client redis.UniversalClient) func(context.Context) string {
	return func(ctx context.Context) string {
		if client.Ping(ctx).Err() != nil {
			return "does not answer"
		}
		return ""
	}
}

// ended names the apps and platforms whose credentials are over.
func (all senders) ended(context.Context) string {
	var over []string
	for _, app := range slices.Sorted(maps.Keys(all)) {
		for platform, sender := range all[app] {
			ending, ok := sender.(interface{ CredentialExpiry() (time.Time, bool) })
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
