//go:build race

package racing

// Watched reports whether the race detector is on.
const Watched = true
