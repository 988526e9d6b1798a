//go:build !soak

package throttle

const (
	// histories counts the random histories of a test.
	histories = 15
	// anywhere multiplies the histories that begin in a random state.
	anywhere = 1
	// simulated counts the runs of the simulation.
	simulated = 24
	// longLine counts the notifications that wait in a long line.
	longLine = 400
)
