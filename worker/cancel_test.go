package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// A producer cancels without knowing the limits, and a worker gives the slot back.
func TestProducerCancelGivesSlotBack(t *testing.T) {
	r := newRig(t, oneRedis(t), limits.New(every(time.Hour), nil))
	r.start()
	r.enqueue(to("sent"))
	r.settled(1)
	r.enqueue(to("unwanted"))
	r.deferred("unwanted")
	if status, err := r.producer.Status(t.Context(), "unwanted"); err != nil || status.State != push.Waiting || status.Job != "retry" || status.Rule != "1/1h" {
		t.Errorf("status %+v, %v", status, err)
	}
	must(t, r.producer.Cancel(t.Context(), "unwanted"))
	status, err := r.producer.Status(t.Context(), "unwanted")
	if err != nil || status.State != push.Cancelled || status.Job != "" || len(status.Outcomes) != 1 || status.Outcomes[0].Ambiguous {
		t.Errorf("status %+v, %v", status, err)
	}
	wait(t, func() bool { return r.slots() == 1 })
	stuck := to("stuck")
	stuck.User = "u2"
	r.apns.RespondAlways(standin.Answer{Fault: standin.BlackHole})
	r.enqueue(stuck)
	wait(t, func() bool { return r.apns.Count().InFlight == 1 })
	for id, want := range map[string]error{"unwanted": push.ErrEnded, "sent": push.ErrEnded, "stuck": push.ErrUnderWay, "nobody": push.ErrUnknownID} {
		if err := r.producer.Cancel(t.Context(), id); !errors.Is(err, want) {
			t.Errorf("cancel of %s: %v, want %v", id, err, want)
		}
	}
	if _, err := r.producer.Status(t.Context(), "nobody"); !errors.Is(err, push.ErrUnknownID) {
		t.Error(err)
	}
	r.apns.Recover()
}

// A slot that cannot be given back does not delay other users' slots, and is logged once.
func TestFailedSlotReleaseDelaysNoOtherUser(t *testing.T) {
	t.Parallel()
	client := redistest.Own(t)
	r := newRig(t, client, limits.New(every(time.Hour), nil))
	log := r.logs()
	for _, id := range []string{"a-bad", "b-good"} { // a batch is in the order of the IDs
		n := to(id)
		n.User = id
		r.enqueue(n)
		r.crashed(n, 0)
		must(t, r.producer.Cancel(t.Context(), id))
	}
	const bad = "pushpace:{shop/a-bad}:sent"
	must(t, client.Del(t.Context(), bad).Err())
	must(t, client.Set(t.Context(), bad, "not ours", 0).Err())
	due := shardKey(client, "taken:due")
	must(t, client.ZAdd(t.Context(), due, redis.Z{Score: 1, Member: "a-bad"}, redis.Z{Score: 1, Member: "b-good"}).Err())
	r.start()
	wait(t, func() bool { return len(r.timeline("b-good").Admissions[throttle.General]) == 0 })
	tries, last := 0, 0.0
	wait(t, func() bool {
		if at := client.ZScore(t.Context(), due, "a-bad").Val(); at != last {
			tries, last = tries+1, at
		}
		return tries == 2
	})
	must(t, client.Del(t.Context(), bad).Err())
	wait(t, func() bool { return client.ZCard(t.Context(), due).Val() == 0 })
	if got := strings.Count(log.String(), "given back late"); got != 1 || !strings.Contains(log.String(), "WRONGTYPE") {
		t.Errorf("logged %d times:\n%s", got, log.String())
	}
}

// dying returns a hook that simulates a crash. It passes on left commands, loses the answer to the last
// of them, and fails all later commands.
func dying(left *atomic.Int64) redistest.Around {
	return func(_ context.Context, cmds []redis.Cmder, next func() error) error {
		if name := cmds[0].Name(); name == "hello" || name == "client" { // of a new connection
			return next()
		}
		left := left.Add(-1)
		if left > 0 {
			return next()
		}
		if left == 0 {
			_ = next()
		}
		return redistest.Fail(cmds, errDied)
	}
}

var errDied = errors.New("the process has died")

// If a process crashes at any command of a cancel, each notification still waits, or has ended
// without a slot.
func TestInterruptedCancelLeavesNoSlot(t *testing.T) {
	t.Parallel()
	client := redistest.Own(t)
	r := newRig(t, client, limits.New(every(time.Hour), nil))
	r.start()
	const points, each = 24, 3       // more points than a cancel has commands
	lines := map[string][]push.Ref{} // waiting notifications by user
	for name, cancel := range map[string]func(own redis.UniversalClient, refs []push.Ref) []error{
		"producer": func(own redis.UniversalClient, refs []push.Ref) []error {
			return []error{push.NewProducer(own, "", 0).CancelOf(t.Context(), refs[0])}
		},
		"operator": func(own redis.UniversalClient, refs []push.Ref) []error {
			_, errs := r.controlOn(own).CancelAll(t.Context(), refs)
			return errs
		},
		"producer of a group": func(own redis.UniversalClient, refs []push.Ref) []error {
			_, err := push.NewProducer(own, "", 0).Withdraw(t.Context(), refs[0].App, refs[0].User, push.Group{Category: "a"})
			return []error{err}
		},
		"operator of a group": func(own redis.UniversalClient, refs []push.Ref) []error {
			_, err := r.controlOn(own).Withdraw(t.Context(), refs[0].App, refs[0].User, push.Group{Category: "a"}, "")
			return []error{err}
		},
	} {
		whole := false
		for at := 1; at <= points; at++ {
			user := fmt.Sprint(name, at)
			lines[user] = r.line(user, []string{"a", "b"}, each)
			own := redistest.Another(t, client)
			var left atomic.Int64
			left.Store(int64(at))
			redistest.Hook(own, dying(&left))
			for _, err := range cancel(own, lines[user]) {
				if err != nil && !errors.Is(err, errDied) {
					t.Errorf("%s: %v", user, err)
				}
			}
			whole = whole || left.Load() > 0
		}
		if !whole {
			t.Errorf("a cancel of the %s has more than %d commands", name, points)
		}
	}
	wait(t, func() bool { return client.ZCard(t.Context(), shardKey(client, "taken:due")).Val() == 0 })
	for user, refs := range lines {
		waiting := 0
		for _, ref := range refs {
			status, err := r.inspector().Status(t.Context(), ref)
			must(t, err)
			switch {
			case status.State == push.Waiting && status.Job != "":
				waiting++
			case status.State != push.Cancelled || status.Job != "":
				t.Errorf("%s is %s, its job %q", ref.ID, status.State, status.Job)
			}
		}
		wait(t, func() bool { return len(r.timeline(user).Bookings) == waiting })
	}
	audit, err := r.inspector().Audit(t.Context())
	must(t, err)
	if audit.Difference != 0 {
		t.Errorf("audit %+v", audit)
	}
}
