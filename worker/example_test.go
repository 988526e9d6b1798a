package worker_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker"
)

// A phone is a Sender that passes on its notifications. apns.New and fcm.New return the push services'
// Senders.
type phone chan *push.Notification

func (p phone) Send(_ context.Context, n *push.Notification, _ push.Target, _ providers.Departure) providers.Outcome {
	p <- n
	return providers.Outcome{Kind: providers.Delivered}
}

func (phone) Close() error { return nil }

// A worker needs a Redis, limits and senders.
func Example() {
	server, err := miniredis.Run() // stands in for a Redis
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true})
	defer client.Close()

	sent, ctx := make(phone), context.Background()
	w, err := worker.New(worker.Options{
		Queue:   client,
		Limits:  limits.New(throttle.Policy{MinGap: time.Second}, nil),
		Senders: map[string]map[push.Platform]providers.Sender{"shop": {push.FCM: sent}},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Start(ctx); err != nil {
		log.Fatal(err)
	}
	n := &push.Notification{
		ID: "order-4711-shipped", App: "shop", User: "u1", Title: "Your order has shipped",
		Targets: []push.Target{{Platform: push.FCM, Token: "a-registration-token"}},
	}
	if _, err := w.Producer().Enqueue(ctx, n); err != nil {
		log.Fatal(err)
	}
	fmt.Println((<-sent).Title)
	if err := w.Stop(ctx); err != nil { // waits for claimed jobs
		log.Fatal(err)
	}
	// Output: Your order has shipped
}
