package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
)

// counted returns a control on its own client, and the number of its scripts.
func (r *rig) counted(client redis.UniversalClient) (*control.Control, *atomic.Int64) {
	r.t.Helper()
	own := redistest.Another(r.t, client)
	return r.controlOn(own), redistest.Count(own, redistest.Script)
}

// controlOn returns a control with its own limiter on the client.
func (r *rig) controlOn(own redis.UniversalClient) *control.Control {
	r.t.Helper()
	limiter, err := throttle.New(own, throttle.Options{Timeout: redistest.Patience})
	must(r.t, err)
	r.t.Cleanup(func() { limiter.Close() })
	return r.rests(control.New(own, store.NewRecords(own, "", 0), limiter, r.options.Limits))
}

// line enqueues n+1 notifications of the user, and waits until the first is sent and n are deferred. It
// returns the n deferred notifications.
func (r *rig) line(user string, categories []string, n int) (refs []push.Ref) {
	r.t.Helper()
	all := make([]*push.Notification, n+1)
	for i := range all {
		all[i] = to(fmt.Sprint(user, "-", i))
		all[i].User, all[i].Category = user, categories[i%len(categories)]
		refs = append(refs, push.Ref{ID: all[i].ID, App: all[i].App, User: user})
	}
	at, err := r.records.Of(r.t.Context(), "shop", user)
	must(r.t, err)
	retry := func() int64 {
		return r.client.ZCard(r.t.Context(), at.QueueKey(push.Default.Queue(), "retry")).Val()
	}
	deferrals, before := r.seen.deferrals(), retry()
	r.enqueueTogether(all[:1])
	wait(r.t, func() bool { return r.record(all[0].ID).State.Ended() })
	r.enqueueTogether(all[1:])
	wait(r.t, func() bool { return r.seen.deferrals() >= deferrals+n && retry() >= before+int64(n) })
	return refs[1:]
}

// exact waits until the cancelled notifications have given their slots back, and checks the audit.
func (r *rig) exact(cancelled, waiting int) {
	r.t.Helper()
	wait(r.t, func() bool { return r.seen.endings(push.Cancelled) == cancelled })
	audit, err := r.inspector().Audit(r.t.Context())
	must(r.t, err)
	if audit.Difference != 0 || audit.Ended[push.Cancelled] != int64(cancelled) || audit.Waiting != int64(waiting) {
		r.t.Errorf("%+v", audit)
	}
}

// One call ends all of a user's waiting notifications, with few scripts and no limiter checks of their
// jobs. The notification in flight stays.
func TestCancelAllOfUserIsOneCall(t *testing.T) {
	client := oneRedis(t)
	r := newRig(t, client, limits.New(every(time.Hour), nil))
	r.start()
	const many = 990
	refs := r.line("u1", []string{""}, many)
	stuck := to("stuck")
	stuck.User = "u2"
	r.apns.RespondAlways(standin.Answer{Fault: standin.BlackHole})
	r.enqueue(stuck)
	wait(t, func() bool { return r.apns.Count().InFlight == 1 })
	counted, scripts := r.counted(client)
	before := r.seen.deferrals()
	_, errs := counted.CancelAll(t.Context(), append(slices.Clone(refs), push.Ref{ID: "stuck", App: "shop", User: "u2"}))
	if ran := scripts.Load(); ran > 15 {
		t.Errorf("it took %d scripts", ran)
	}
	for i, err := range errs[:many] {
		if err != nil {
			t.Errorf("%s: %v", refs[i].ID, err)
		}
	}
	if !errors.Is(errs[many], push.ErrUnderWay) {
		t.Errorf("the one in flight: %v", errs[many])
	}
	if left := r.timeline("u1").Bookings; len(left) != 0 {
		t.Errorf("slots are left: %+v", left)
	}
	r.exact(many, 1)
	if checks := r.seen.deferrals() - before; checks != 0 {
		t.Errorf("%d jobs were checked", checks)
	}
	r.apns.Recover()
}

// A single cancel takes two scripts; a further script runs once a second.
func TestSingleCancelTakesTwoScripts(t *testing.T) {
	client := oneRedis(t)
	r := newRig(t, client, limits.New(every(time.Hour), nil))
	stop := r.start()
	const many, left = 300, 10
	refs := r.line("u1", []string{""}, many+left)
	stop()
	counted, scripts := r.counted(client)
	began := time.Now()
	for _, ref := range refs[:many] {
		if _, err := counted.Cancel(t.Context(), ref, 0); err != nil {
			t.Fatal(err)
		}
	}
	ran, most := scripts.Load(), int64(2*many+8*(2+int(time.Since(began)/time.Second)))
	if ran > most {
		t.Errorf("%d scripts, want %d at most", ran, most)
	}
	counted.Rest(t.Context())
	bookings := r.timeline("u1").Bookings
	if len(bookings) != left || bookings[left-1].Slot.After(time.Now().Add((left+1)*time.Hour)) {
		t.Errorf("the rest did not get earlier slots: %+v", bookings)
	}
	r.start()
	r.exact(many, left)
}

// placings counts the calls of the limiter that place lines.
type placings struct {
	throttle.Planner
	mu               sync.Mutex
	leaves, replaced []string
}

func (p *placings) CancelAll(ctx context.Context, all []throttle.Request) (throttle.FollowUp, error) {
	p.mu.Lock()
	p.leaves = append(p.leaves, fmt.Sprint(all[0].User, "/", all[0].Category, " ", len(all)))
	p.mu.Unlock()
	return p.Planner.CancelAll(ctx, all)
}

func (p *placings) Replan(ctx context.Context, all []throttle.Request) (throttle.FollowUp, error) {
	p.mu.Lock()
	for _, r := range all {
		p.replaced = append(p.replaced, r.User+"/"+r.Category)
	}
	p.mu.Unlock()
	return p.Planner.Replan(ctx, all)
}

// CancelAll removes the notifications of each user and category in one call. The other notifications get
// earlier slots without a gap, and each line is placed again about once.
func TestCancelAllReschedulesOtherJobsOnce(t *testing.T) {
	r := newRig(t, oneRedis(t), limits.New(every(time.Hour), nil))
	stop := r.start()
	const each, left = 20, 4
	var refs []push.Ref
	for _, user := range []string{"u1", "u3"} {
		its := r.line(user, []string{"a", "b"}, each)
		refs = append(refs, its[:each-left]...)
	}
	stop()
	counting := &placings{Planner: r.limiter}
	c := control.New(r.client, r.records, counting, r.options.Limits)
	_, errs := c.CancelAll(t.Context(), refs)
	for i, err := range errs {
		if err != nil {
			t.Errorf("%s: %v", refs[i].ID, err)
		}
	}
	c.Rest(t.Context())
	slices.Sort(counting.leaves)
	if want := []string{"u1/a 8", "u1/b 8", "u3/a 8", "u3/b 8"}; !slices.Equal(counting.leaves, want) {
		t.Errorf("leaves %v", counting.leaves)
	}
	if len(counting.replaced) > 8 {
		t.Errorf("placed again were %v", counting.replaced)
	}
	for _, user := range []string{"u1", "u3"} {
		timeline := r.timeline(user)
		sent := timeline.Admissions[throttle.General][0].At
		for i, b := range timeline.Bookings {
			if gap := b.Slot.Sub(sent.Add(time.Duration(i+1) * time.Hour)); gap > time.Minute || len(timeline.Bookings) != left {
				t.Errorf("%s: the slot %d of %d is %s too late", user, i, len(timeline.Bookings), gap)
			}
		}
	}
	r.start()
	r.exact(2*(each-left), 2*left)
}
