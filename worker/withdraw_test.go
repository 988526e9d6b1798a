package worker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/pause"
)

// A withdrawal ends all waiting notifications of a user's group, and no other notifications.
func TestWithdrawEndsWaitingGroup(t *testing.T) {
	type withdraw func(r *rig, g push.Group) (push.Withdrawn, error)
	for name, withdraw := range map[string]withdraw{
		"producer": func(r *rig, g push.Group) (push.Withdrawn, error) {
			return r.producer.Withdraw(r.t.Context(), "shop", "u1", g)
		},
		"operator": func(r *rig, g push.Group) (push.Withdrawn, error) {
			done, err := r.control().Withdraw(r.t.Context(), "shop", "u1", g, "")
			return done.Withdrawn, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, o := tuned(t, oneRedis(t), every(time.Hour), nil)
			log := r.logs()
			with := func(n *push.Notification) *push.Notification { n.Thread = "chat"; return n }
			r.enqueue(with(to("pending")))
			expect := func(g push.Group, want push.Withdrawn) {
				t.Helper()
				if got, err := withdraw(r, g); err != nil || got != want {
					t.Errorf("%+v: %+v, %v; want %+v", g, got, err, want)
				}
			}
			chat := push.Group{Thread: "chat"}
			expect(chat, push.Withdrawn{Ended: 1})
			r.start()
			r.enqueue(to("sent"))
			r.ends("sent")

			scheduled := with(to("scheduled"))
			scheduled.NotBefore = time.Now().Add(time.Hour)
			other, others := to("another thread"), with(to("another user"))
			other.Thread, others.User = "another", "u2"
			r.enqueue(others)
			r.ends("another user")
			others = with(to("another user's"))
			others.User = "u2"
			for _, n := range []*push.Notification{with(to("deferred")), scheduled, other, others} {
				r.enqueue(n)
			}
			for _, id := range []string{"deferred", "another thread", "another user's"} {
				r.deferred(id)
			}
			held := pause.Pause{App: "shop", Reason: "test"}
			r.pause(held, log)
			paused := with(to("paused"))
			paused.Category = "orders"
			r.enqueue(paused)
			r.asleep(4)
			expect(chat, push.Withdrawn{Ended: 3})
			expect(chat, push.Withdrawn{})
			r.resume(held)
			for _, id := range []string{"pending", "deferred", "scheduled", "paused"} {
				if state := r.record(id).State; state != push.Cancelled {
					t.Errorf("%s is %s", id, state)
				}
			}
			for _, id := range []string{"another thread", "another user's"} {
				if state := r.record(id).State; state != push.Waiting {
					t.Errorf("%s is %s", id, state)
				}
			}
			wait(t, func() bool { return r.slots() == 2 }) // of the sent one and the other thread's

			r.enqueue(like("carrier"))
			r.deferred("carrier")
			r.joins(like("one"), "carrier")
			r.joins(like("two"), "carrier")
			expect(push.Group{DigestKey: "post-4711"}, push.Withdrawn{Ended: 1, Carried: 2})
			r.enqueue(collapsing("score", ""))
			r.deferred("score")
			expect(push.Group{CollapseKey: "score"}, push.Withdrawn{Ended: 1})

			r.let(o)
			r.ends("another thread")
			r.apns.RespondAlways(standin.Answer{Fault: standin.BlackHole})
			stuck := to("stuck")
			stuck.Category = "orders"
			r.enqueue(stuck)
			wait(t, func() bool { return r.apns.Count().InFlight == 1 })
			expect(push.Group{Category: "orders"}, push.Withdrawn{InFlight: 1})
			r.apns.Recover()
			if len(r.pushed("")) == 0 {
				t.Error("nothing was pushed")
			}
			must(t, r.producer.Cancel(t.Context(), "another user's"))
			r.accounts()
		})
	}
}

// The cost of a withdrawal does not depend on other users' notifications.
func TestWithdrawReadsOnlyOneUser(t *testing.T) {
	t.Parallel()
	client := redistest.Own(t)
	r := newRig(t, client, unlimited)
	for i := range 300 {
		n := to(fmt.Sprint("n", i))
		n.User = fmt.Sprint("user-", i)
		r.enqueue(n)
	}
	n := to("own")
	n.Thread = "chat"
	r.enqueue(n)
	own := redistest.Another(t, client)
	counted := redistest.Count(own, func(redis.Cmder) bool { return true })
	if done, err := push.NewProducer(own, "", 0).Withdraw(t.Context(), "shop", "u1", push.Group{Thread: "chat"}); err != nil || done.Ended != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	if n := counted.Load(); n > 20 {
		t.Errorf("%d commands", n)
	}
}
