//go:build !soak

package throttle

const (
	// histories counts the random histories of a test.
	histories = 15
	// simulated counts the runs of the simulation.
	simulated = 24
)
