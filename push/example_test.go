//go:build unix

package push_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/push"
)

// redisAddress returns the address of a Redis for the examples.
func redisAddress() string {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	return server.Addr()
}

func Example() {
	client := redis.NewClient(&redis.Options{Addr: redisAddress()})
	defer client.Close()
	producer := push.NewProducer(client, "", 0)

	receipt, err := producer.Enqueue(context.Background(), &push.Notification{
		ID:       "order-4711-shipped",
		App:      "shop",
		User:     "u1",
		Category: "orders",
		Targets:  []push.Target{{Platform: push.FCM, Token: "a-registration-token"}},
		Title:    "Your order has shipped",
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(receipt.ID, "known before:", receipt.Known)
	// Output: order-4711-shipped known before: false
}

// An invalid notification is refused with all of its faults.
func ExampleProducer_Enqueue_faults() {
	client := redis.NewClient(&redis.Options{Addr: redisAddress()})
	defer client.Close()
	producer := push.NewProducer(client, "", 0)

	_, err := producer.Enqueue(context.Background(), &push.Notification{
		App: "shop", Targets: []push.Target{{Platform: push.APNs, Token: "no hexadecimal"}}, Title: "Hello",
	})
	var faults push.Faults
	if errors.As(err, &faults) {
		for _, f := range faults {
			fmt.Println(f.Field, f.Problem)
		}
	}
	// Output:
	// /user is missing
	// /targets/0/token must be hexadecimal: it is an APNs device token
}

// A producer that knows its apps refuses a mistyped app at once. Without WithApps the notification would
// be accepted, and end as a dead letter.
func ExampleProducer_WithApps() {
	client := redis.NewClient(&redis.Options{Addr: redisAddress()})
	defer client.Close()
	producer := push.NewProducer(client, "", 0).WithApps("shop", "kiosk")

	_, err := producer.Enqueue(context.Background(), &push.Notification{
		App: "shpo", User: "u1", Targets: []push.Target{{Platform: push.FCM, Token: "a-registration-token"}}, Title: "Hello",
	})
	fmt.Println(err)
	// Output: /app: is not one of the configuration's apps: kiosk, shop; did you mean shop?
}

// Many notifications take one round trip, and each has its own result.
func ExampleProducer_EnqueueAll() {
	client := redis.NewClient(&redis.Options{Addr: redisAddress()})
	defer client.Close()
	producer := push.NewProducer(client, "", 0)

	to := []push.Target{{Platform: push.FCM, Token: "a-registration-token"}}
	for _, result := range producer.EnqueueAll(context.Background(), []*push.Notification{
		{ID: "news-1", App: "shop", User: "u1", Targets: to, Title: "News"},
		{ID: "news-2", App: "shop", Targets: to, Title: "News"},
	}) {
		if result.Err != nil {
			fmt.Println("refused:", result.Err)
			continue
		}
		fmt.Println("accepted:", result.ID)
	}
	// Output:
	// accepted: news-1
	// refused: /user: is missing
}

// The status of a waiting notification can be read, and the notification cancelled.
func ExampleProducer_Cancel() {
	client := redis.NewClient(&redis.Options{Addr: redisAddress()})
	defer client.Close()
	producer := push.NewProducer(client, "", 0)

	ctx := context.Background()
	if _, err := producer.Enqueue(ctx, &push.Notification{
		ID: "reminder-1", App: "shop", User: "u1", Targets: []push.Target{{Platform: push.FCM, Token: "a-registration-token"}},
		Title: "Your table is booked for tonight", NotBefore: time.Now().Add(8 * time.Hour),
	}); err != nil {
		log.Fatal(err)
	}
	if err := producer.Cancel(ctx, "reminder-1"); err != nil {
		log.Fatal(err)
	}
	status, err := producer.Status(ctx, "reminder-1")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(status.State)
	// Output: cancelled
}

// RenderAPNs shows APNs' request. It sends nothing.
func ExampleNotification_RenderAPNs() {
	n := &push.Notification{
		ID: "order-4711-shipped", App: "shop", User: "u1", Title: "Your order has shipped",
		Targets: []push.Target{{Platform: push.APNs, Token: "00fc13adff785122"}},
	}
	message, err := n.RenderAPNs(n.Targets[0])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(message.PushType, message.Priority, string(message.Payload))
	// Output: alert 10 {"aps":{"alert":{"title":"Your order has shipped"}},"pushpace_id":"order-4711-shipped"}
}
