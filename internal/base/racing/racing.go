// Package racing reports whether the race detector is on, which makes a test several times slower.
package racing

// Fewer returns n, but under the race detector a tenth of n, at least 1: more histories of the same
// calls find no further race.
func Fewer(n int) int {
	if Enabled {
		return max(1, n/10)
	}
	return n
}
