package apns_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/apns/apnstest"
	"github.com/pushpace/pushpace/push"
)

// In this example, a stand-in writes the Sender's Config.
func Example() {
	server, err := apnstest.NewServer(apnstest.Options{})
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

	sender, err := apns.New(config)
	if err != nil {
		log.Fatal(err)
	}
	defer sender.Close()
	n := &push.Notification{ID: "order-4711-shipped", App: "shop", User: "u1", Title: "Your order has shipped"}
	outcome := sender.Send(context.Background(), n, push.Target{Platform: push.APNs, Token: "00fc13adff785122"}, providers.Departure{})
	fmt.Println(outcome.Kind)
	fmt.Println("the stand-in has accepted", server.Ledger().Entries()[0].Notification)
	// Output:
	// delivered
	// the stand-in has accepted order-4711-shipped
}
