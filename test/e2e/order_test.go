//go:build e2e && unix

package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/test/rig"
)

// send enqueues all lines of a long file, each user's notifications in the file's order.
func TestSendKeepsUserOrder(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	var input strings.Builder
	for i := range 2000 {
		input.WriteString(rig.Notification(fmt.Sprintf("n-%04d", i), fmt.Sprintf("user-%d", i%20), "chat", "apns", "00"))
	}
	s.Send(t, input.String())
	last := map[string]string{}
	ids, err := s.Client.LRange(t.Context(), shard.NewShards(s.Client, "", 1)[0].QueueKey(push.Default.Queue(), "pending"), 0, -1).Result()
	if err != nil || len(ids) != 2000 {
		t.Fatalf("%d jobs, %v", len(ids), err)
	}
	slices.Reverse(ids) // the worker pulls from the end of the list
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
