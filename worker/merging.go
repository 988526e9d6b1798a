package worker

import (
	"context"
	"time"

	"github.com/pushpace/pushpace/internal/base/strictjson"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
)

// A notification may join a digest that waits, or take the place of an older one with its collapse
// key: in both cases one push is for several notifications.

// joinDigest begins a visit of a notification with a digest. The delivery joins another one that
// waits with the digest's key. If there is none, its push tells of the notifications that have
// joined it, and no other one joins it until it waits again. This precedes every end of the
// visit, so that a dead letter has the joined ones too.
func (h *handler) joinDigest(ctx context.Context, d *delivery) fate {
	if d.digest == nil {
		return nil
	}
	now, op := time.Now(), store.JoinDigest
	alone := h.Limits.Passes(control.LevelOf(d.Notification), false) // its category is exempt
	if !d.unsentYet() || alone || h.muted(d) || d.expired(now) || now.Before(d.NotBefore) {
		op = store.CloseDigest
	}
	return h.digest(ctx, d, op, 0)
}

// waitInDigest opens the delivery's digest while a limit makes it wait, or the delivery joins
// another one. The notifications of a burst are all in hand before the first of them waits, so
// they could not join it when their visits began.
func (h *handler) waitInDigest(ctx context.Context, d *delivery, to back) fate {
	if d.digest == nil || !d.unsentYet() {
		return to
	}
	if joined := h.digest(ctx, d, store.WaitInDigest, to.After); joined != nil {
		return joined
	}
	return to
}

// unsentYet reports whether no visit can have sent the delivery. A sent one may have told of those
// that it carried then.
func (d *delivery) unsentYet() bool { return d.failures == 0 && !d.replay }

// digest does that step of the delivery's digest.
func (h *handler) digest(ctx context.Context, d *delivery, op store.DigestOp, wait time.Duration) fate {
	n := d.digest
	text, err := strictjson.Encode(n)
	if err != nil {
		return later(err)
	}
	part, err := d.at.Records.Digest(ctx, op, &store.Joiner{
		App: n.App, User: n.User, Category: n.Category, Key: n.Digest.Key, Job: &store.Job{ID: n.ID, Queue: d.queue, Hand: d.hand},
		Accepted: d.accepted, Title: n.Title, JSON: text, Targets: push.Unsent(n.Targets), Wait: wait, Most: push.MaxDigest,
	})
	switch {
	case err != nil:
		return later(err)
	case part.Ended && d.unsentYet(): // load reads the record of a job that has failed
		return back{Return: store.Return{Why: store.Failed, Detail: "another worker has ended it", After: store.Again, Failed: true}}
	case part.Into != "":
		h.settling.events.ended(ctx, d, push.Digested)
		if d.asked || !d.back.IsZero() { // else it has asked for no slot
			return elsewhere{h.slots.giveBack(ctx, d, false)}
		}
		return elsewhere{}
	}
	if err := d.carry(&part); err != nil {
		return later(err)
	}
	return nil
}

// carry makes the delivery the push of all that have joined it, for its own targets.
func (d *delivery) carry(part *store.Part) error {
	if d.carried = part.Joined; len(d.carried) == 0 {
		return nil
	}
	told := push.Carried{Count: 1 + len(part.Joined), Titles: append([]string{d.digest.Title}, part.Titles...), Newest: d.digest}
	if !part.NewestAt.Before(d.accepted) {
		told.Newest = new(push.Notification)
		if err := strictjson.Decode(part.Newest, told.Newest); err != nil {
			return err
		}
	}
	d.Notification = told.Push(d.digest)
	job := &push.Job{Notification: d.Notification, AcceptedAt: d.accepted, Replay: d.replay, Digested: d.carried}
	if text, err := push.Encode(job); err == nil { // which validation has made sure of
		d.job = text // that a dead letter keeps
	}
	return nil
}

// collapse ends the delivery if a newer notification has its collapse key. Else it ends the older
// one, which waits on its queue, and the delivery takes over its slot when it asks for one. An
// older one that is in hand ends at its next visit. If that is being sent, the device replaces it.
func (h *handler) collapse(ctx context.Context, d *delivery) fate {
	if d.CollapseKey == "" {
		return nil
	}
	key := store.CollapseKey{App: d.App, User: d.User, Key: d.CollapseKey}
	found, err := d.at.Records.Collapse(ctx, key, d.ID, d.accepted, push.Contents)
	switch {
	case err != nil:
		return later(err)
	case found.Newer:
		return d.cutShort(push.Superseded, "a newer one has the same collapse key")
	}
	d.heir, d.elder = found.Heir, found.Elder
	return nil
}
