//go:build soak && unix

package soak

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/rig"
	"github.com/pushpace/pushpace/throttle"
)

const (
	burstJobs = 200
	// alike bounds the time between two acceptances after which the later notification may still
	// leave first, if it leaves at its first check.
	alike = 20 * time.Millisecond
)

// Two processes pull a user's burst from one producer, faster than the limit allows. Between
// workers, only two notifications accepted within the same second may swap.
func TestBurstLeavesInOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("it needs a machine that does nothing else")
	}
	t.Parallel()
	c := rig.NewCrashSite(t, throttle.Policy{MinGap: 40 * time.Millisecond}, time.Millisecond)
	workers := []*rig.Program{c.Serve(t), c.Serve(t)}
	producer := push.NewProducer(c.Client, "", 0)
	var accepted [burstJobs]time.Time
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := range accepted {
		_, err := producer.Enqueue(t.Context(), &push.Notification{
			ID: fmt.Sprint("n-", i), App: "shop", User: "ada", Title: "hello", Targets: []push.Target{{Platform: push.APNs, Token: "00"}},
		})
		rig.Must(t, err)
		accepted[i] = time.Now()
		<-tick.C
	}
	c.Drained(t, burstJobs)
	var left []int
	for _, e := range c.APNs.Ledger().Entries() {
		left = append(left, int(number(strings.TrimPrefix(e.Notification, "n-"))))
	}
	if len(left) != burstJobs {
		t.Fatalf("%d have left of %d", len(left), burstJobs)
	}
	swapped := 0
	for k, later := range left {
		for _, earlier := range left[k+1:] {
			if apart := accepted[later].Sub(accepted[earlier]); apart > time.Second {
				t.Errorf("n-%d was accepted %s before n-%d, and left after it", earlier, apart, later)
			} else if earlier < later {
				swapped++
			}
		}
	}
	t.Logf("%d pairs swapped", swapped)
	c.Stop(t, workers...)
}

// monitor calls each with MONITOR's line of every command that a Redis executes, until the returned
// function is called.
func monitor(t *testing.T, server *redistest.Server, each func(line string)) (end func()) {
	t.Helper()
	conn, err := net.Dial("tcp", server.Addr())
	rig.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 4<<20) // one line has a script with all of its arguments
	if _, err := fmt.Fprint(conn, "MONITOR\r\n"); err != nil || !lines.Scan() {
		t.Fatalf("MONITOR: %v, %v", err, lines.Err())
	}
	const last = "that is all"
	read := make(chan error, 1)
	go func() {
		for lines.Scan() {
			if strings.Contains(lines.Text(), last) {
				read <- nil
				return
			}
			each(lines.Text())
		}
		read <- fmt.Errorf("MONITOR ended: %w", lines.Err())
	}()
	return func() {
		t.Helper()
		rig.Must(t, server.Client(t).Echo(t.Context(), last).Err())
		rig.Must(t, <-read)
	}
}

func number(digits string) int64 {
	n, _ := strconv.ParseInt(digits, 10, 64) // digits always parse
	return n
}
