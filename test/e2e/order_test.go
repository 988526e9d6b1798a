//go:build e2e && unix

package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/rig"
)

// A file of many lines is enqueued whole, each user's in the file's order.
func TestSendKeepsAUsersOrder(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	var input strings.Builder
	for i := range 2000 {
		input.WriteString(rig.Notification(fmt.Sprintf("n-%04d", i), fmt.Sprintf("user-%d", i%20), "chat", "apns", "00"))
	}
	s.Send(t, rig.Done, input.String())
	last := map[string]string{}
	ids, err := s.Client.LRange(t.Context(), shard.Named(s.Client, "", 1)[0].QueueKey(push.Default.Queue(), "pending"), 0, -1).Result()
	if err != nil || len(ids) != 2000 {
		t.Fatalf("%d jobs, %v", len(ids), err)
	}
	slices.Reverse(ids) // the next to be pulled is the list's last
	for _, id := range ids {
		n, err := strconv.Atoi(strings.TrimPrefix(id, "n-"))
		rig.Must(t, err)
		user := strconv.Itoa(n % 20)
		if id < last[user] {
			t.Fatalf("%s is after %s", id, last[user])
		}
		last[user] = id
	}
}

// One push of a user that fails keeps none of the others from leaving in their order: a 503, a
// dead token, a rejection and a time-out. On a machine that stands still one may pass another.
func TestAFailureKeepsAUsersOrder(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	s.Configure(t, rig.ShippedLimits, "default: {min_gap: 500ms}")
	stand := s.StandIns(t, time.Millisecond)
	worker := s.Serve(t)
	var input strings.Builder
	tokens := []string{"fade1503", "deaddead", "fade0403", "fade1b1a"}
	for user, token := range tokens {
		for i := range 6 {
			to := fmt.Sprintf("%02d%02d", user, i)
			if i == 1 {
				to = token + to
			}
			input.WriteString(rig.Notification(fmt.Sprintf("u%d-m%d", user, i), fmt.Sprint("user-", user), "chat", "apns", to))
		}
	}
	s.Send(t, rig.Done, input.String())
	order := make([][]string, len(tokens))
	worker.Until(t, "the others' pushes", func() bool {
		n := 0
		for user := range tokens {
			order[user] = nil
			for _, e := range stand.APNs.Ledger().Entries() {
				if of := fmt.Sprintf("u%d-m", user); strings.HasPrefix(e.Notification, of) && e.Notification != of+"1" {
					order[user] = append(order[user], e.Notification)
					n++
				}
			}
		}
		return n == 5*len(tokens)
	})
	passed := 0
	for user, token := range tokens {
		if !slices.IsSorted(order[user]) {
			t.Logf("beside %s: %v", token, order[user])
			passed++
		}
	}
	if passed > len(tokens)/2 {
		t.Errorf("of %d users %d had some pass others", len(tokens), passed)
	}
	s.Stop(t, worker)
}
