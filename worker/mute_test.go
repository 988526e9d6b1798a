package worker_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// mute mutes at the level, and waits until the rig's worker applies it.
func (r *rig) mute(o *limits.Overrides, of limits.Level, all bool) {
	r.t.Helper()
	of.Mute = true
	must(r.t, o.Set(r.t.Context(), limits.Override{Level: of, All: all, By: "ann"}))
	wait(r.t, func() bool {
		known := r.options.Limits.NewestMute()
		return known != nil && known.Level == of && known.All == all
	})
}

// ends waits until the notification has ended, and returns its state.
func (r *rig) ends(id string) (state push.State) {
	r.t.Helper()
	wait(r.t, func() bool { state = r.record(id).State; return state.Ended() })
	return state
}

// expect waits until the notifications have ended, and checks their state.
func (r *rig) expect(want push.State, ids ...string) {
	r.t.Helper()
	for _, id := range ids {
		if state := r.ends(id); state != want {
			r.t.Errorf("%s ends %s, want %s", id, state, want)
		}
	}
}

// muted checks that the notifications end muted and are not sent.
func (r *rig) muted(ids ...string) {
	r.t.Helper()
	r.expect(push.Muted, ids...)
	for _, id := range ids {
		if got := r.pushed(id); len(got) != 0 {
			r.t.Errorf("%s is pushed: %+v", id, got)
		}
	}
}

// A mute ends new and waiting notifications, and gives back their slots. Critical ones and exempt
// categories pass, unless the mute is of all. After an unmute, new notifications wait as before.
func TestMuteEndsNewAndWaitingNotifications(t *testing.T) {
	overRedis(t, func(t *testing.T, client redis.UniversalClient) {
		r, o := tuned(t, client, every(time.Hour), map[string]throttle.Policy{"security": {Exempt: true}})
		r.start()
		with := func(id, category string, priority push.Priority, notBefore time.Duration) *push.Notification {
			n := to(id)
			n.Category, n.Priority = category, priority
			if notBefore > 0 {
				n.NotBefore = time.Now().Add(notBefore)
			}
			return n
		}
		r.enqueue(to("sent"))
		r.ends("sent")
		other := to("other's")
		other.User = "u2"
		other.NotBefore = time.Now().Add(time.Hour)
		r.enqueue(other)
		r.enqueue(with("critical", "", push.Critical, 0))
		r.deferred("critical")
		r.enqueue(to("waits"))
		r.deferred("waits")
		r.enqueue(with("scheduled", "", push.Bulk, time.Hour))
		r.enqueue(with("exempt", "security", push.Default, time.Hour))

		r.mute(o, limits.Level{User: "u1"}, false)
		r.muted("waits", "scheduled")
		wait(t, func() bool { return r.slots() == 2 })
		r.enqueue(to("new"))
		r.muted("new")
		r.enqueue(with("code", "security", push.Default, 0))
		r.expect(push.Delivered, "code")

		r.mute(o, limits.Level{App: "shop", User: "u1"}, true)
		r.muted("critical", "exempt")
		wait(t, func() bool { return r.slots() == 1 })
		r.enqueue(with("alarm", "security", push.Critical, 0))
		r.muted("alarm")
		counts := r.settled(8)
		if counts.Ended[push.Muted] != 6 || counts.Ended[push.Delivered] != 2 || counts.Waiting() != 1 {
			t.Errorf("%+v", counts)
		}
		wait(t, func() bool { return r.seen.endings(push.Muted) == 6 })
		r.accounts()

		for _, of := range []limits.Level{{User: "u1", Mute: true}, {App: "shop", User: "u1", Mute: true}} {
			_, err := o.Unset(t.Context(), of, "ann")
			must(t, err)
		}
		wait(t, func() bool { return r.options.Limits.NewestMute() == nil })
		r.enqueue(to("later"))
		r.deferred("later")
	})
}

// A muted notification does not supersede an older one with its collapse key that is not muted.
func TestMutedNotificationDoesNotSupersede(t *testing.T) {
	r, o := tuned(t, oneRedis(t), every(time.Hour), nil)
	r.start()
	r.mute(o, limits.Level{User: "u1", Category: "news"}, false)
	r.enqueue(to("sent"))
	r.ends("sent")
	r.enqueue(collapsing("older", ""))
	r.deferred("older")
	r.enqueue(collapsing("newer", "news"))
	r.muted("newer")
	if state := r.record("older").State; state != push.Waiting || r.slots() != 2 {
		t.Errorf("the older one is %s, with %d slots in use", state, r.slots())
	}
}

// A failed notification ends muted and is not retried. A notification that was delivered to one of its
// targets ends delivered.
func TestMuteEndsFailedNotification(t *testing.T) {
	r, o := tuned(t, oneRedis(t), every(time.Hour), nil)
	r.start()
	r.fcm.RespondAlways(standin.Answer{Status: http.StatusServiceUnavailable, RetryAfter: time.Hour})
	r.enqueue(to("failed", google))
	wait(t, func() bool { return r.record("failed").Attempts == 1 })
	part := to("in part", push.Target{Platform: push.APNs, Token: appleToken}, google)
	part.User = "u2"
	r.enqueue(part)
	wait(t, func() bool { return len(r.pushed("in part")) == 1 })
	r.mute(o, limits.Level{App: "shop"}, false)
	r.muted("failed")
	if record := r.record("failed"); record.Attempts != 1 || len(record.Outcomes) != 1 || record.Outcomes[0].Kind != "retry" {
		t.Errorf("%+v", record)
	}
	r.expect(push.Delivered, "in part")
	wait(t, func() bool { return r.slots() == 0 })
}

// A mute ends notifications during their visit: a notification that waits for the limiter is not sent,
// and one with a failed push does not return to the queue.
func TestMuteEndsClaimedNotifications(t *testing.T) {
	r, o := tuned(t, oneRedis(t), every(time.Hour), nil)
	limiter := &slowLimiter{Planner: r.limiter, id: "asks", answered: make(chan struct{}), let: make(chan struct{})}
	r.options.Limiter = limiter
	r.fcm.RespondAlways(standin.Answer{Status: http.StatusServiceUnavailable, Delay: time.Second})
	r.start()
	r.enqueue(to("asks"))
	<-limiter.answered
	fails := to("fails", google)
	fails.User = "u2"
	r.enqueue(fails)
	wait(t, func() bool { return r.fcm.Count().Received == 1 })
	r.mute(o, limits.Level{App: "shop"}, false)
	close(limiter.let)
	r.muted("asks", "fails")
	wait(t, func() bool { return r.slots() == 0 })
}

// If a category is muted while no worker runs, all its waiting notifications end, each once, and so do
// later notifications. Notifications of other categories stay.
func TestMuteEndsAllWaitingNotifications(t *testing.T) {
	client := oneRedis(t)
	const many, others = 250, 5 // several pages
	r, o := tuned(t, client, every(time.Hour), nil)
	counting := &placings{Planner: r.limiter}
	r.options.Limiter = counting
	r.enqueueAll("n", many+others, func(i int, n *push.Notification) {
		n.User, n.Category, n.NotBefore = fmt.Sprint("u", i%7), "news", time.Now().Add(time.Hour)
		if i >= many {
			n.Category = "orders"
		}
	})
	must(t, o.Set(t.Context(), limits.Override{Level: limits.Level{App: "shop", Category: "news", Mute: true}, By: "ann"}))
	r.startTwo()
	late := to("late")
	late.Category = "news"
	r.enqueue(late)
	r.muted("late")
	counts := r.settled(many + 1)
	if counts.Ended[push.Muted] != many+1 || counts.Waiting() != others {
		t.Errorf("%+v", counts)
	}
	wait(t, func() bool {
		return r.seen.endings(push.Muted) == many+1 && client.ZCard(t.Context(), shardKey(client, "taken:due")).Val() == 0
	})
	r.accounts()
	counting.mu.Lock()
	defer counting.mu.Unlock()
	if len(counting.leaves) > 3*7 { // a call a user, and a second scan for late arrivals
		t.Errorf("%d calls: %v", len(counting.leaves), counting.leaves)
	}
}
