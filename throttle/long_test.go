//go:build soak

package throttle

const (
	histories = 100
	anywhere  = 10
	simulated = 160
	longLine  = 4000
)
