package push

import (
	"sync"
	"testing"
	"time"
)

func TestAProducersInstantsIncrease(t *testing.T) {
	t.Parallel()
	var i instants
	var mu sync.Mutex
	seen := map[time.Time]bool{}
	var goroutines sync.WaitGroup
	for range 4 {
		goroutines.Go(func() {
			last := time.Time{}
			for range 1000 {
				next := i.next()
				if !next.After(last) || next.Nanosecond()%1000 != 0 {
					t.Errorf("%v after %v", next, last)
				}
				last = next
				mu.Lock()
				if seen[next] {
					t.Errorf("%v twice", next)
				}
				seen[next] = true
				mu.Unlock()
			}
		})
	}
	goroutines.Wait()
}
