// Package loadtest is the command bench: it puts load on a worker, kills it in the middle, and
// judges the pushes that the providers' stand-ins received.
package loadtest

// Options are the command's flags.
type Options struct {
	Users         int
	Notifications int    // 0 for five for every four users
	Redis         string // host:port; "" to start a server
}

// least is the fewest users, and the fewest notifications, of a run.
const least = 100
