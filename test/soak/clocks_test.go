//go:build soak && unix

package soak

import (
	"fmt"
	"testing"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/rig"
	"github.com/pushpace/pushpace/throttle"
)

// A worker whose clock is 90 s ahead or behind works together with a worker with the right clock. The
// provider takes 3 s to answer. Nothing is sent twice, and limits hold.
func TestWorkerWithWrongClock(t *testing.T) {
	skewed := buildSkewed(t)
	for _, seconds := range []int{90, -90} {
		t.Run(fmt.Sprint(seconds), func(t *testing.T) {
			const users, each = 60, 3
			c := rig.NewCrashSite(t, throttle.Policy{MinGap: 2 * time.Second}, 3*time.Second)
			off := c.Setup
			off.Program, off.Env = skewed, append(off.Env[:len(off.Env):len(off.Env)], fmt.Sprint("CLOCK_SKEW_SECONDS=", seconds))
			workers := []*rig.Program{c.Serve(t), off.Serve(t)}
			producer := push.NewProducer(c.Client, "", 0)
			for i := range users * each {
				_, err := producer.Enqueue(t.Context(), &push.Notification{
					ID: fmt.Sprint("n-", i), App: "shop", User: fmt.Sprint("user ", i%users), Title: "hello",
					Targets: []push.Target{{Platform: push.APNs, Token: fmt.Sprintf("%064x", i)}},
				})
				rig.Must(t, err)
			}
			workers[0].Until(t, "all", func() bool { return c.Delivered() >= users*each })
			time.Sleep(10 * time.Second) // a job that was wrongly taken over would be sent again by now
			sent := map[string]int{}
			for _, e := range c.APNs.Ledger().Entries() {
				if sent[e.Notification]++; sent[e.Notification] == 2 {
					t.Errorf("%s was sent twice", e.Notification)
				}
			}
			if len(sent) != users*each {
				t.Errorf("%d were sent, want %d", len(sent), users*each)
			}
			(&rig.Site{}).Stop(t, workers...)
		})
	}
}
