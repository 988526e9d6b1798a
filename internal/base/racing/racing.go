// Package racing lets a test know that the race detector watches it, which makes it
// several times slower.
package racing

// Few are so many histories under the race detector, where another one of the same calls
// shows no other race, and n without it.
func Few(n int) int {
	if Watched {
		return max(1, n/10)
	}
	return n
}
