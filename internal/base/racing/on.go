//go:build race

package racing

// Watched is whether the race detector watches.
const Watched = true
