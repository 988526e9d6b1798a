package worker

import (
	"context"
	"time"

	"github.com/pushpace/pushpace/internal/base/strictjson"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/control"
)

// A notification may join a waiting digest, or replace an older notification with its collapse key. In
// both cases one push replaces several.

// joinDigest begins the visit of a notification with a digest. The delivery joins a waiting notification
// with the same digest key. If none waits, the push of the delivery includes the notifications that have
// joined it, and no more can join until it waits again. joinDigest must precede every end of the visit,
// so that a dead letter includes the joined notifications.
func (h *handler) joinDigest(ctx context.Context, d *delivery) result {
	if d.digest == nil {
		return nil
	}
	now, op := time.Now(), store.JoinDigest
	alone := h.Limits.Passes(control.LevelOf(d.Notification), false) // its category is exempt
	if !d.isUnsent() || alone || h.muted(d) || d.expired(now) || now.Before(d.NotBefore) {
		op = store.CloseDigest
	}
	return h.digest(ctx, d, op, 0)
}

// waitInDigest opens a digest for a deferred delivery, or joins the delivery to an open digest. In a
// burst, all visits begin before the first delivery waits, so joinDigest finds no open digest.
func (h *handler) waitInDigest(ctx context.Context, d *delivery, to requeue) result {
	if d.digest == nil || !d.isUnsent() {
		return to
	}
	if joined := h.digest(ctx, d, store.WaitInDigest, to.After); joined != nil {
		return joined
	}
	return to
}

// isUnsent reports whether no earlier visit can have sent the delivery. A sent push may have
// included the notifications that had joined before it.
func (d *delivery) isUnsent() bool { return d.failures == 0 && !d.replay }

// digest applies op to the delivery's digest.
func (h *handler) digest(ctx context.Context, d *delivery, op store.DigestOp, wait time.Duration) result {
	n := d.digest
	text, err := strictjson.Encode(n)
	if err != nil {
		return requeueAfterError(err)
	}
	part, err := d.at.Records.Digest(ctx, op, &store.Joiner{
		App: n.App, User: n.User, Category: n.Category, Key: n.Digest.Key, Job: &store.Job{ID: n.ID, Queue: d.queue, Claim: d.hand},
		Accepted: d.accepted, Title: n.Title, JSON: text, Targets: push.Unsent(n.Targets), Wait: wait, Most: push.MaxDigest,
	})
	switch {
	case err != nil:
		return requeueAfterError(err)
	case part.Ended && d.isUnsent(): // load reads the record of a job that has failed
		return requeue{Return: store.Return{Why: store.Failed, Detail: "another worker has ended the notification", After: store.RetryDelay, Failed: true}}
	case part.Into != "":
		h.finisher.events.ended(ctx, d, push.Digested)
		if d.asked || !d.returnedAt.IsZero() { // else it holds no slot
			return endedElsewhere{h.slots.giveBack(ctx, d, false)}
		}
		return endedElsewhere{}
	}
	if err := d.carry(&part); err != nil {
		return requeueAfterError(err)
	}
	return nil
}

// carry replaces the notification by the push of its digest, which goes to the delivery's own targets.
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
	if text, err := push.Encode(job); err == nil { // as validation has ensured
		d.job = text // for a dead letter
	}
	return nil
}

// collapse ends the delivery if a newer notification has its collapse key. Otherwise it ends the older
// notification on the queue, and the delivery takes over that slot. A claimed older notification ends at
// its next visit; if its present visit sends it, the device replaces it.
func (h *handler) collapse(ctx context.Context, d *delivery) result {
	if d.CollapseKey == "" {
		return nil
	}
	key := store.CollapseKey{App: d.App, User: d.User, Key: d.CollapseKey}
	found, err := d.at.Records.Collapse(ctx, key, d.ID, d.accepted, push.Contents)
	switch {
	case err != nil:
		return requeueAfterError(err)
	case found.Newer:
		return d.endEarly(push.Superseded, "a newer notification has the same collapse key")
	}
	d.isSuccessor, d.predecessor = found.Heir, found.Elder
	return nil
}
