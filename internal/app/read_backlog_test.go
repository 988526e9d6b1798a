//go:build unix

package app

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
	"github.com/pushpace/pushpace/throttle"
)

func inMemory(t *testing.T) *throttle.Memory {
	t.Helper()
	l, err := throttle.NewMemory(throttle.Options{})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// Only the sums and the queues decide whether Redis serves. Other parts that cannot be read, for
// a missing right or a key of another type, are left out and logged once.
func TestUnreadablePartIsLeftOut(t *testing.T) {
	t.Parallel()
	options := redistest.Shared(t).Options()
	options.DB = redistest.Database(t)
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	var text bytes.Buffer
	cfg := &config.Config{Redis: config.Redis{Prefix: "pushpace"}, Apps: map[string]config.App{
		"shop": {DeadTokens: config.Reports{Webhook: &config.Webhook{}}, Outcomes: config.Reports{Webhook: &config.Webhook{}}},
	}}
	s := &System{
		Queue: client, config: cfg, Records: store.NewRecords(client, "", 0), redisLog: slog.New(slog.NewTextHandler(&text, nil)),
		limits: LimitsOf(cfg.Limits), limiter: throttle.WithOutage(inMemory(t), throttle.Closed, throttle.OutageOptions{}),
	}
	keys := []string{storetest.First(t, s.Records).Key("dead-tokens:shop"), "pushpace:{workers}:alive", "pushpace:{pauses}:operators"}
	for _, key := range keys {
		must(t, client.Set(t.Context(), key, "of another type", 0).Err())
	}
	for range 2 {
		b, err := s.readBacklog(t.Context())
		must(t, err)
		if _, known := b.Webhooks["shop"]["outcomes"]; len(b.Webhooks["shop"]) != 1 || !known || b.Workers != -1 || b.Waits != nil || b.Jobs == nil {
			t.Errorf("%+v", b)
		}
	}
	if n := strings.Count(text.String(), "level=WARN"); n != 3 {
		t.Errorf("told %d times:\n%s", n, &text)
	}
	must(t, client.Del(t.Context(), keys...).Err())
	for range 2 {
		b, err := s.readBacklog(t.Context())
		if err != nil || len(b.Webhooks["shop"]) != 2 || b.Workers != 0 || time.Since(s.waits.at) > time.Minute {
			t.Errorf("%+v, %v", b, err)
		}
	}
	if n := strings.Count(text.String(), "level=INFO"); n != 3 {
		t.Errorf("told %d times that it is over:\n%s", n, &text)
	}
}
