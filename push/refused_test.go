package push_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
)

// If the password of Redis has changed, each result of a batch has the error, also on a client with a
// name.
func TestBatchReportsRefusedConnection(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	options := server.Options()
	options.ClientName = "shop" // with a name, go-redis leaves the commands without an error
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	admin := server.Client(t)
	must(t, admin.ConfigSet(t.Context(), "requirepass", "changed").Err())
	n := push.Notification{App: "demo", User: "ada", Title: "t", Targets: []push.Target{{Platform: push.FCM, Token: "x"}}}
	for _, r := range push.NewProducer(client, "", 0).EnqueueAll(t.Context(), []*push.Notification{&n, &n}) {
		if r.Err == nil || !strings.Contains(r.Err.Error(), "NOAUTH") {
			t.Errorf("%+v", r)
		}
	}
}
