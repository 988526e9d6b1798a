//go:build soak && unix

package soak

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/rig"
	"github.com/pushpace/pushpace/throttle"
)

// A flood of one user keeps a worker busy for most of a minute. Notifications of others leave within
// seconds meanwhile; the log has their delays.
func TestAFloodOfOneUser(t *testing.T) {
	c := rig.NewCrashSite(t, throttle.Policy{MinGap: time.Minute}, time.Millisecond)
	worker := c.Serve(t)
	producer := push.NewProducer(c.Client, "", 0)
	enqueue := func(id, user string) {
		if _, err := producer.Enqueue(t.Context(), &push.Notification{ID: id, App: "shop", User: user, Title: "hello", Targets: []push.Target{{Platform: push.APNs, Token: "00"}}}); err != nil {
			t.Error(err)
		}
	}
	flood, producers := size(200_000, 20_000), 32
	var flooding sync.WaitGroup
	for p := range producers {
		flooding.Go(func() {
			for i := p; i < flood; i += producers {
				enqueue(fmt.Sprint("flood-", i), "flooded")
			}
		})
	}
	done := make(chan struct{})
	go func() { flooding.Wait(); close(done) }()
	var accepted []time.Time
	over := time.NewTimer(time.Duration(size(60, 10)) * time.Second)
	for more := true; more; {
		accepted = append(accepted, time.Now())
		enqueue(fmt.Sprint("fresh-", len(accepted)-1), fmt.Sprint("user ", len(accepted)))
		select {
		case <-time.After(50 * time.Millisecond):
		case <-over.C:
			more = false
		}
	}
	<-done
	delays := make([]time.Duration, len(accepted))
	worker.Until(t, "the others'", func() bool {
		arrived := 0
		for _, e := range c.APNs.Ledger().Entries() {
			var i int
			if n, _ := fmt.Sscanf(e.Notification, "fresh-%d", &i); n == 1 {
				delays[i] = e.At.Sub(accepted[i])
				arrived++
			}
		}
		return arrived == len(accepted)
	})
	slices.Sort(delays)
	p50, p99 := delays[len(delays)/2], delays[len(delays)*99/100]
	t.Logf("beside %d of one user %d others leave after %s, p99 %s, at most %s", flood, len(delays), p50, p99, delays[len(delays)-1])
	if p50 > 5*time.Second {
		t.Errorf("they leave after %s", p50)
	}
	c.Stop(t, worker)
}
