//go:build !soak

package throttle

// How many random histories a test has: of calls, of calls that begin anywhere (times
// those), of the simulation; and how many wait in a long line.
const (
	histories = 15
	anywhere  = 1
	simulated = 24
	longLine  = 400
)
