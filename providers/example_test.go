package providers_test

import (
	"context"
	"fmt"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

// A printer is a custom Sender, for a program that must send nothing.
type printer struct{}

func (printer) Send(_ context.Context, n *push.Notification, t push.Target, _ providers.Departure) providers.Outcome {
	fmt.Printf("%s to a device of %s: %s\n", n.ID, t.Platform, n.Title)
	return providers.Outcome{Kind: providers.Delivered}
}

func (printer) Close() error { return nil }

func ExampleSender() {
	var sender providers.Sender = printer{}
	defer sender.Close()
	n := &push.Notification{ID: "order-4711-shipped", App: "shop", User: "u1", Title: "Your order has shipped"}
	outcome := sender.Send(context.Background(), n, push.Target{Platform: push.FCM, Token: "a-registration-token"}, providers.Departure{})
	fmt.Println(outcome.Kind)
	// Output:
	// order-4711-shipped to a device of fcm: Your order has shipped
	// delivered
}
