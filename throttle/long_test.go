//go:build soak

package throttle

const (
	histories = 100
	simulated = 160
)
