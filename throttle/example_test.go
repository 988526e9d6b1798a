package throttle_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/throttle"
)

// A user may receive one notification a minute. The second one gets a slot, when it asks again.
func Example() {
	server, err := miniredis.Run() // in place of a Redis server
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true})
	defer client.Close()
	limiter, err := throttle.New(client, throttle.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close()

	scopes := []throttle.Scope{{Name: throttle.General, Policy: throttle.Policy{MinGap: time.Minute}}}
	for _, id := range []string{"first", "second"} {
		d, err := limiter.Acquire(context.Background(), throttle.Request{User: "u1", ID: id, Scopes: scopes, Horizon: time.Hour})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(id, d.Status, "left:", d.Left.Round(time.Minute))
	}
	// Output:
	// first granted left: 0s
	// second deferred left: 1m0s
}

// Several limits at once: the user's general ones, and a category's.
func ExampleLimiter() {
	limiter, err := throttle.NewMemory(throttle.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close()
	scopes := []throttle.Scope{
		{Name: throttle.General, Policy: throttle.Policy{Rates: []throttle.Rate{{Count: 10, Period: time.Minute}, {Count: 100, Period: 24 * time.Hour}}}},
		{Name: "marketing", Policy: throttle.Policy{Rates: []throttle.Rate{{Count: 1, Period: 24 * time.Hour}}}},
	}
	offer := func(id string) throttle.Request {
		return throttle.Request{App: "shop", User: "u1", ID: id, Scopes: scopes, Horizon: 48 * time.Hour}
	}
	ctx := context.Background()
	for _, id := range []string{"offer-1", "offer-2"} {
		d, err := limiter.Acquire(ctx, offer(id))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %s by %q %q\n", id, d.Status, d.Scope, d.Rule)
	}
	// offer-1 is not sent after all: offer-2 moves up
	placed, err := limiter.Cancel(ctx, offer("offer-1"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(placed.Early[0].ID, "moves up")
	// Output:
	// offer-1 granted by "" ""
	// offer-2 deferred by "marketing" "1/24h"
	// offer-2 moves up
}

// Without a Horizon a request is either granted or refused.
func ExampleRequest_horizon() {
	limiter, err := throttle.NewMemory(throttle.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close()
	r := throttle.Request{
		User: "u1", Report: true,
		Scopes: []throttle.Scope{{Name: throttle.General, Policy: throttle.Policy{Rates: []throttle.Rate{{Count: 2, Period: time.Hour}}}}},
	}
	for _, r.ID = range []string{"a", "b", "c"} {
		d, err := limiter.Acquire(context.Background(), r)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.ID, d.Status, "remaining:", d.Remaining[0].Count)
	}
	// Output:
	// a granted remaining: 1
	// b granted remaining: 0
	// c refused remaining: 0
}
