package judge

import "time"

// Stalls measures how long this process waits for a processor, until a call of longest, which returns
// the longest time.
func Stalls() (longest func() time.Duration) {
	const every = 5 * time.Millisecond
	stop, most := make(chan struct{}), make(chan time.Duration)
	go func() {
		stall := time.Duration(0)
		for last := time.Now(); ; last = time.Now() {
			select {
			case <-stop:
				most <- stall
				return
			case <-time.After(every):
			}
			stall = max(stall, time.Since(last)-every)
		}
	}()
	return func() time.Duration { close(stop); return <-most }
}
