package meter_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/meter"
)

// All workers together take three units of a key in any hour.
func Example() {
	server, err := miniredis.Run() // in place of a Redis server
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true})
	defer client.Close()

	m := meter.NewRedis(client, "")
	spec := meter.Spec{Algorithm: meter.SlidingWindow, Rates: []throttle.Rate{{Count: 3, Period: time.Hour}}}
	for range 2 {
		answer, err := m.Take(context.Background(), "campaign", spec, meter.Ask{Least: 1, Most: 2})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("took", answer.Units)
	}
	// Output:
	// took 2
	// took 1
}
