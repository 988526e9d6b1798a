package worker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// What is beyond a user's line goes out behind it, or ends at once where it says
// so; none is lost, and none goes out too soon.
func TestAFullLine(t *testing.T) {
	const n, gap = 6, 2 * time.Second
	r := newRig(t, oneRedis(t), limits.New(throttle.Policy{MinGap: gap}, nil))
	r.options.MaxBooked = 3
	r.options.MaxWaiting = 1 // the others go to the line
	for i := range n {
		r.enqueue(to(fmt.Sprintf("waits-%d", i)))
	}
	r.start()
	wait(t, func() bool { return len(r.timeline("u1").Bookings) == 3 })
	refused := to("refused")
	refused.IfFull = push.IfFullReject
	refused.Priority = push.Critical
	r.enqueue(refused)
	counts := r.settled(n + 1)
	if counts.Ended[push.Delivered] != n || counts.Ended[push.Rejected] != 1 {
		t.Errorf("counts %+v", counts)
	}
	if letter := r.letter("refused"); letter.Reason != string(providers.LineFull) {
		t.Errorf("the letter is %+v", letter)
	}
	if got := r.pushed("refused"); len(got) > 0 {
		t.Errorf("pushed %+v", got)
	}
	admissions := r.timeline("u1").Admissions[throttle.General]
	for i := 1; i < len(admissions); i++ {
		if distance := admissions[i].At.Sub(admissions[i-1].At); distance < gap-time.Millisecond {
			t.Errorf("admission %d is %s after the one before; want at least %s", i, distance, gap)
		}
	}
}
