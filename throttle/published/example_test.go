package published_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/pushpace/pushpace/throttle/published"
)

// Denied attempts count: a client that keeps trying stays blocked.
func Example() {
	now := time.Unix(1_800_000_000, 0)
	limiter, err := published.NewMemory(published.Options{Interval: time.Minute, Max: 1, Now: func() time.Time { return now }})
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		result, err := limiter.Limit(context.Background(), "u1")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("blocked:", result.Blocked, "left:", result.Left)
		now = now.Add(40 * time.Second)
	}
	// Output:
	// blocked: false left: 1m0s
	// blocked: true left: 1m0s
	// blocked: true left: 1m0s
}
