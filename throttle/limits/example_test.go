package limits_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// An override of a user replaces the configured general limits in every process that follows the
// overrides, until it ends.
func Example() {
	server, err := miniredis.Run() // in place of a Redis server
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true})
	defer client.Close()

	policies := limits.New(throttle.Policy{MinGap: time.Second}, map[string]throttle.Policy{"security": {Exempt: true}})
	overrides := limits.NewOverrides(client, "", 0)
	ctx := context.Background()
	err = overrides.Set(ctx, limits.Override{
		Level: limits.Level{App: "shop", User: "u1"}, Policy: throttle.Policy{MinGap: time.Minute},
		Until: time.Now().Add(time.Hour), By: "ada",
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := overrides.Refresh(ctx, policies); err != nil { // once; Follow repeats it
		log.Fatal(err)
	}
	for _, user := range []string{"u1", "u2"} {
		fmt.Println(user, policies.Scopes("shop", user, "")[0].Policy)
	}
	fmt.Println("scopes of security:", len(policies.Scopes("shop", "u1", "security")))
	// Output:
	// u1 1m apart
	// u2 1s apart
	// scopes of security: 0
}
