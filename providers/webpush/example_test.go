package webpush_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/pushpace/pushpace/providers/webpush"
	"github.com/pushpace/pushpace/providers/webpush/webpushtest"
	"github.com/pushpace/pushpace/push"
)

// A Sender is made from a Config, here from the one that a stand-in writes.
func Example() {
	server, err := webpushtest.NewServer(webpushtest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	config, err := server.WriteCredentials(dir)
	if err != nil {
		log.Fatal(err)
	}

	sender, err := webpush.New(config)
	if err != nil {
		log.Fatal(err)
	}
	defer sender.Close()
	n := &push.Notification{ID: "order-4711-shipped", App: "shop", User: "u1", Title: "Your order has shipped"}
	endpoint := webpushtest.Endpoint(push.WebPushMozilla, "a-browser")
	outcome := sender.Send(context.Background(), n, webpushtest.Subscription(endpoint))
	fmt.Println(outcome.Kind)
	fmt.Println("the stand-in has accepted", server.Ledger().Entries()[0].Notification)
	// Output:
	// delivered
	// the stand-in has accepted order-4711-shipped
}
