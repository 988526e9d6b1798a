package route

import (
	"fmt"
	"testing"
	"time"

	"github.com/pushpace/pushpace/push"
)

// A user's category is a crowd for crowdFor after the last rejection, except on the critical
// queue. The number of crowds is bounded.
func TestCrowdEndsAfterLastRejection(t *testing.T) {
	t.Parallel()
	var c Crowds
	now := time.Unix(1000, 0)
	bounds := func(queue string, at time.Time) int { return len(c.Bounds(nil, queue, 64, at)) }
	if n := bounds(push.Default.Queue(), now); n != 0 {
		t.Errorf("%d bounds before a rejection", n)
	}
	c.Note("shop", "ada", "news", now)
	c.Note("shop", "ada", "news", now.Add(crowdFor/2))
	for queue, want := range map[string]int{push.Critical.Queue(): 0, push.Default.Queue(): 1, push.Bulk.Queue(): 1} {
		if n := bounds(queue, now.Add(crowdFor)); n != want {
			t.Errorf("%s: %d, want %d", queue, n, want)
		}
	}
	for most, want := range map[int]int{64: 8, 6: 1} {
		if got := c.Bounds(nil, push.Bulk.Queue(), most, now)[0]; got.Name != push.UserMark("shop", "ada", "news") || got.Room != want {
			t.Errorf("of a pull of %d: %+v", most, got)
		}
	}
	if n := bounds(push.Default.Queue(), now.Add(crowdFor+crowdFor/2)); n != 0 {
		t.Errorf("%d bounds after crowdFor", n)
	}
	for i := range 2 * maxCrowds {
		c.Note("shop", fmt.Sprint(i), "", now)
	}
	if n := bounds(push.Default.Queue(), now); n != maxCrowds {
		t.Errorf("%d bounds for too many crowds", n)
	}
}
