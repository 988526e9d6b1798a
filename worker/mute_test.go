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

// muted checks that the notifications end muted and are not sent.
func (r *rig) muted(ids ...string) {
	r.t.Helper()
	for _, id := range ids {
		if state := r.ends(id); state != push.Muted || len(r.pushed(id)) != 0 {
			r.t.Errorf("%s ends %s, with %d pushes", id, state, len(r.pushed(id)))
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
		if state := r.ends("code"); state != push.Delivered {
			t.Errorf("one of an exempt category ends %s", state)
		}

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
		wait(t, func() bool { // a job may leave the queue after its notification has ended
			audit, err := r.inspector().Audit(t.Context())
			must(t, err)
			return audit.Difference == 0 && audit.Queued == 1
		})

		for _, of := range []limits.Level{{User: "u1", Mute: true}, {App: "shop", User: "u1", Mute: true}} {
			_, err := o.Unset(t.Context(), of, "ann")
			must(t, err)
		}
		wait(t, func() bool { return r.options.Limits.NewestMute() == nil })
		r.enqueue(to("later"))
		r.deferred("later")
	})
}

// A mute expires by Redis's clock.
func TestMuteExpiresByRedisClock(t *testing.T) {
	r, o := tuned(t, oneRedis(t), throttle.Policy{}, nil)
	r.start()
	r.mute(o, limits.Level{Category: "news"}, false)
	news := func(id string) *push.Notification {
		n := to(id)
		n.Category = "news"
		return n
	}
	r.enqueue(news("muted"))
	r.enqueue(to("of no category"))
	r.muted("muted")
	must(t, o.Set(t.Context(), limits.Override{Level: limits.Level{Category: "news", Mute: true}, Until: r.options.Limits.Now().Add(time.Second), By: "ann"}))
	wait(t, func() bool {
		return !r.options.Limits.Muted(limits.Level{App: "shop", User: "u1", Category: "news"}, false)
	})
	r.enqueue(news("sent"))
	for _, id := range []string{"sent", "of no category"} {
		if state := r.ends(id); state != push.Delivered {
			t.Errorf("%s ends %s", id, state)
		}
	}
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
	if state := r.ends("in part"); state != push.Delivered {
		t.Errorf("the one that was delivered in part ends %s", state)
	}
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
	all := make([]*push.Notification, many+others)
	for i := range all {
		all[i] = to(fmt.Sprint("n", i))
		all[i].User, all[i].Category, all[i].NotBefore = fmt.Sprint("u", i%7), "news", time.Now().Add(time.Hour)
		if i >= many {
			all[i].Category = "orders"
		}
	}
	r.enqueueTogether(all)
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
	audit, err := r.inspector().Audit(t.Context())
	must(t, err)
	if audit.Difference != 0 || audit.Queued != others {
		t.Errorf("%+v", audit)
	}
	counting.mu.Lock()
	defer counting.mu.Unlock()
	if len(counting.leaves) > 3*7 { // a call a user, and a second scan for late arrivals
		t.Errorf("%d calls: %v", len(counting.leaves), counting.leaves)
	}
}
