// Command pushpace dispatches push notifications, and sends none before its user's limits allow it.
package main

import (
	"os"

	"github.com/pushpace/pushpace/internal/cli"
)

func main() {
	os.Exit(cli.Run(os.Args[1:]))
}
