// Command pushpace dispatches push notifications, each no sooner than its
// user's limits allow.
package main

import (
	"os"

	"github.com/pushpace/pushpace/internal/cli"
)

func main() {
	os.Exit(cli.Run(os.Args[1:]))
}
