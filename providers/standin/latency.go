package standin

import (
	"sync/atomic"
	"time"
)

// A Latency is the time that answers take. The zero value answers at once.
type Latency struct {
	// Typical is the time of most answers.
	Typical time.Duration
	// Tail is the longest time of slow answers, which are spread evenly between
	// Typical and Tail.
	Tail time.Duration
	// TailShare is the share of slow answers, 0 to 1.
	TailShare float64
	// Seed makes the draws repeatable.
	Seed uint64
}

// Draws returns a function that draws one latency after the other. It is safe
// for concurrent use.
func (l Latency) Draws() func() time.Duration {
	if l.TailShare <= 0 || l.Tail <= l.Typical {
		return func() time.Duration { return l.Typical }
	}
	var drawn atomic.Uint64
	return func() time.Duration {
		n := l.Seed + drawn.Add(2)
		if unit(n) >= l.TailShare {
			return l.Typical
		}
		return l.Typical + time.Duration(unit(n+1)*float64(l.Tail-l.Typical))
	}
}

// unit turns n into a number in [0, 1) that looks random (splitmix64).
func unit(n uint64) float64 {
	n *= 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	n ^= n >> 31
	return float64(n>>11) / (1 << 53)
}
