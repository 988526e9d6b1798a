// Command pushpace dispatches push notifications, each no sooner than its
// user's limits allow.
package main

import "os"

func main() {
	os.Exit(run(os.Args[1:]))
}
