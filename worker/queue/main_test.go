package queue

import (
	"log/slog"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
	"github.com/pushpace/pushpace/push"
)

func TestMain(m *testing.M) {
	redistest.Parallel()
	goleak.VerifyTestMain(m, redistest.Dialing())
}

// note returns a notification to one device.
func note(id string) *push.Notification {
	return &push.Notification{ID: id, App: "shop", User: "ada", Title: "t", Targets: []push.Target{{Platform: push.APNs, Token: "00fcab"}}}
}

// configOf returns the configuration of a worker without limits on its routes.
func configOf(t *testing.T, client redis.UniversalClient) Config {
	return Config{
		Client: client, Records: storetest.First(t, store.NewRecords(client, "", 0).WithShards(1)), Budget: NewBudget(8),
		Reserve: roomFor(), CanUnpark: func(string, []string) bool { return true }, SetAside: func(push.State) {},
		Log: slog.New(slog.DiscardHandler), RedisLog: slog.New(slog.DiscardHandler),
	}
}
