package app

import (
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redistest"
)

// The limits' Redis may take its configured timeout to answer.
func TestLimitsRedisGetsConfiguredTimeout(t *testing.T) {
	t.Parallel()
	var all config.Config
	all.SetDefaults()
	own := all.Redis
	own.Address = config.Address{Mode: config.Single, Hosts: []string{redistest.Miniredis(t).Addr()}}
	own.Timeout = 3 * time.Second
	cfg := &config.Config{Limits: config.Limits{Redis: &own}}
	var s System
	lines, err := s.openTimelines(t.Context(), cfg, slog.New(slog.DiscardHandler))
	must(t, err)
	defer s.Close()
	for name, client := range map[string]any{"its own": s.limitsRedis, "the limiter's": lines.client} {
		if of, ok := client.(interface{ Options() *redis.Options }); !ok || of.Options().ReadTimeout != own.Timeout {
			t.Errorf("%s client: %T, which does not wait for %v", name, client, own.Timeout)
		}
	}
}
