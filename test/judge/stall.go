package judge

import "time"

// Stalls measures the longest time that this process waited for a processor, until stop is closed.
func Stalls(stop <-chan struct{}, longest chan<- time.Duration) {
	const every = 5 * time.Millisecond
	var most time.Duration
	timer := time.NewTimer(every)
	defer timer.Stop()
	for last := time.Now(); ; {
		select {
		case <-stop:
			longest <- most
			return
		case <-timer.C:
		}
		now := time.Now()
		most = max(most, now.Sub(last)-every)
		last = now
		timer.Reset(every)
	}
}
