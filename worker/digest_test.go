package worker_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/pause"
)

// like returns a notification with a digest.
func like(id string) *push.Notification {
	n := to(id)
	n.Title, n.Digest = "title of "+id, &push.Digest{Key: "post-4711", Title: "{count} people like your photo", Body: "{first} and {more} others"}
	return n
}

// joins enqueues the notification, and checks that it joins the notification into.
func (r *rig) joins(n *push.Notification, into string) {
	r.t.Helper()
	r.enqueue(n)
	if state, record := r.ends(n.ID), r.record(n.ID); state != push.Digested || record.Into != into || record.Deferrals != 0 {
		r.t.Errorf("%s ends %s, into %q, after %d deferrals", n.ID, state, record.Into, record.Deferrals)
	}
}

// let raises the user's limit so far that nothing waits for it.
func (r *rig) let(o *limits.Overrides) {
	r.t.Helper()
	must(r.t, o.Set(r.t.Context(), limits.Override{
		Level: limits.Level{User: "u1"}, Policy: throttle.Policy{Rates: []throttle.Rate{{Count: 1000, Period: time.Second}}}, By: "ann",
	}))
}

// The first notification leaves at once. A second one waits for the limit; its push with one slot carries
// all that come meanwhile. Critical notifications do not join, nor do other keys or categories.
func TestDigestCarriesNotificationsWithSameKey(t *testing.T) {
	overRedis(t, func(t *testing.T, client redis.UniversalClient) {
		r, o := tuned(t, client, every(time.Hour), nil)
		r.start()
		r.enqueue(like("at once"))
		r.ends("at once")
		carrier := like("carrier")
		carrier.ExpiresAt = time.Now().Add(50 * time.Minute) // before its slot
		r.enqueue(carrier)
		r.expect(push.Expired, "carrier") // alone
		r.enqueue(like("waits"))
		r.deferred("waits")
		newest := like("newest")
		newest.Targets = []push.Target{{Platform: push.FCM, Token: googleToken}}
		for i := range 3 {
			r.joins(like(fmt.Sprint("joins-", i)), "waits")
		}
		r.joins(newest, "waits")
		if n := r.slots(); n != 2 { // one is the admission of "at once"
			t.Errorf("%d slots, want one more", n)
		}
		other, category, critical := like("other key"), like("other category"), like("critical")
		other.Digest.Key, category.Category, critical.Priority = "post-12", "c", push.Critical
		for _, n := range []*push.Notification{other, category, critical} {
			r.enqueue(n)
			r.deferred(n.ID)
		}
		r.accounts()

		r.let(o)
		counts := r.settled(10)
		if counts.Ended[push.Digested] != 4 || counts.Ended[push.Delivered] != 5 || counts.Ended[push.Expired] != 1 || counts.Waiting() != 0 {
			t.Errorf("%+v", counts)
		}
		if got := r.pushed("waits"); len(got) != 1 || got[0].Token != appleToken {
			t.Errorf("%+v, want one push, to its own target", got)
		}
		if record := r.record("waits"); record.Carried != 4 || record.State != push.Delivered {
			t.Errorf("%+v", record)
		}
		if got := r.pushed(""); len(got) != 5 {
			t.Errorf("%d pushes, want 5", len(got))
		}
		wait(t, func() bool {
			return r.seen.endings(push.Digested) == 4
		})
		r.accounts()
	})
}

// All notifications of a burst are claimed before the first of them waits.
func TestBurstJoinsOneDigest(t *testing.T) {
	r, o := tuned(t, oneRedis(t), every(time.Hour), nil)
	r.start()
	r.enqueue(like("at once"))
	r.ends("at once")
	var burst []*push.Notification
	for i := range 5 {
		burst = append(burst, like(fmt.Sprint("burst-", i)))
	}
	r.enqueueTogether(burst)
	r.settled(5)
	r.let(o)
	if counts := r.settled(6); counts.Ended[push.Digested] != 4 || counts.Ended[push.Delivered] != 2 {
		t.Errorf("%+v", counts)
	}
	if got := r.pushed(""); len(got) != 2 {
		t.Errorf("%d pushes, want 2", len(got))
	}
	r.accounts()
}

// No notification joins a paused one, which may leave as soon as the pause ends.
func TestPausedNotificationOpensNoDigest(t *testing.T) {
	r := newRig(t, oneRedis(t), unlimited)
	log := r.logs()
	r.start()
	held := pause.Pause{App: "shop", Reason: "test"}
	r.pause(held, log)
	r.enqueue(like("one"))
	r.asleep(1)
	r.enqueue(like("two"))
	r.asleep(2)
	r.resume(held)
	if counts := r.settled(2); counts.Ended[push.Delivered] != 2 || len(r.pushed("")) != 2 {
		t.Errorf("%+v", counts)
	}
}

// A cancel of a notification that carries others needs a confirmation.
func TestCancelOfCarrierNeedsConfirmation(t *testing.T) {
	r, o := tuned(t, oneRedis(t), every(time.Hour), nil)
	r.start()
	r.enqueue(like("at once"))
	r.ends("at once")
	r.enqueue(like("carrier"))
	r.deferred("carrier")
	ref := push.Ref{ID: "carrier"}
	r.joins(like("one"), "carrier")
	r.joins(like("two"), "carrier")
	carries := new(push.CarriesError)
	if err := r.producer.Cancel(t.Context(), "carrier"); !errors.As(err, &carries) || carries.Others != 2 {
		t.Errorf("a producer cancels it: %v", err)
	}
	if err := r.cancel(ref); !errors.As(err, &carries) {
		t.Errorf("an operator cancels it: %v", err)
	}
	if err := r.producer.CancelWithOthers(t.Context(), ref, 1); !errors.As(err, &carries) || carries.Others != 2 {
		t.Errorf("it is cancelled with one of its two others: %v", err)
	}
	if err := r.producer.Cancel(t.Context(), "one"); !errors.Is(err, push.ErrEnded) {
		t.Errorf("one that has joined is cancelled: %v", err)
	}
	must(t, r.producer.CancelWithOthers(t.Context(), ref, 2))
	r.enqueue(like("next"))
	r.deferred("next")
	r.joins(like("three"), "next")
	r.let(o)
	if r.expect(push.Delivered, "next"); r.record("next").Carried != 1 || len(r.pushed("")) != 2 {
		t.Errorf("%+v, %+v", r.record("next"), r.pushed(""))
	}
	r.accounts()
}

// A dead letter contains the push of its whole digest, and a requeue sends this push.
func TestDeadLetterContainsWholeDigest(t *testing.T) {
	r, o := tuned(t, oneRedis(t), every(time.Hour), nil)
	r.start()
	with := func(id string) *push.Notification {
		n := like(id)
		n.Category = "mistyped"
		return n
	}
	r.enqueue(with("at once"))
	r.ends("at once")
	r.enqueue(with("carrier"))
	r.deferred("carrier")
	r.joins(with("one"), "carrier")
	r.joins(with("two"), "carrier")
	r.options.Limits.SetUnknown(limits.RefuseUnknown)
	r.let(o)
	r.expect(push.Rejected, "carrier")
	job, err := push.Decode(r.letter("carrier").Job)
	must(t, err)
	if n := job.Notification; !slices.Equal(job.Digested, []string{"one", "two"}) || n.Title != "3 people like your photo" || n.Body != "title of carrier and 2 others" || n.Data[push.DigestKey] != "3" {
		t.Errorf("%+v of %q", n, job.Digested)
	}
	r.options.Limits.SetUnknown(limits.AllowUnknown)
	must(t, r.producer.Requeue(t.Context(), "carrier"))
	if state := r.ends("carrier"); state != push.Delivered || len(r.pushed("carrier")) != 1 || r.record("carrier").Carried != 2 {
		t.Errorf("it ends %s, %+v", state, r.record("carrier"))
	}
	counts := r.settled(4)
	if counts.Ended[push.Digested] != 2 || counts.Ended[push.Delivered] != 2 || counts.Waiting() != 0 {
		t.Errorf("%+v", counts)
	}
	r.accounts()
}
