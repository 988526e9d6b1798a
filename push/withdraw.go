package push

import (
	"context"
	"fmt"

	"github.com/pushpace/pushpace/internal/base/fielderrors"
	"github.com/pushpace/pushpace/internal/store"
)

// A Group selects a user's notifications by one field. Exactly one is set.
type Group struct {
	Thread      string
	CollapseKey string
	Category    string
	DigestKey   string
}

// Validate returns an error of type Faults unless exactly one field is set.
func (g Group) Validate() error {
	set := 0
	for _, value := range []string{g.Thread, g.CollapseKey, g.Category, g.DigestKey} {
		if value != "" {
			set++
		}
	}
	if set != 1 {
		return fielderrors.New("", "want exactly one of thread, collapse_key, category and digest_key")
	}
	return nil
}

// Has reports whether the job's notification is in the group; false for an unreadable job.
func (g Group) Has(payload []byte) bool {
	job, err := Decode(payload)
	if err != nil {
		return false
	}
	n := job.Notification
	switch {
	case g.Thread != "":
		return n.Thread == g.Thread
	case g.CollapseKey != "":
		return n.CollapseKey == g.CollapseKey
	case g.Category != "":
		return n.Category == g.Category
	}
	return n.Digest != nil && n.Digest.Key == g.DigestKey
}

// Withdrawn counts the results of a withdrawal.
type Withdrawn struct {
	// Ended is how many notifications have ended as Cancelled.
	Ended int `json:"ended"`
	// Carried is how many were in the digests of the Ended ones. They had ended as Digested, and are not
	// sent now.
	Carried int `json:"carried"`
	// InFlight is how many a worker is sending or checking. They do not end. Repeat the withdrawal until
	// InFlight is 0: it ends those that a limit delays.
	InFlight int `json:"in_flight"`
}

// Count adds the results of a call.
func (w *Withdrawn) Count(done store.Withdrawn) {
	w.Ended, w.InFlight = w.Ended+len(done.Taken), w.InFlight+done.InFlight
	for _, t := range done.Taken {
		w.Carried += t.Carried
	}
}

// Withdraw ends a user's waiting notifications of the group, because the user has read them
// elsewhere. It ends each as CancelWithOthers does, with all others. After an error some of them
// may have ended; calling it again is safe.
func (p *Producer) Withdraw(ctx context.Context, app, user string, g Group) (w Withdrawn, err error) {
	if err := g.Validate(); err != nil {
		return w, err
	}
	at, err := p.records.Of(ctx, app, user)
	for after, more := "", true; more && err == nil; more = after != "" {
		var done store.Withdrawn
		done, err = at.Withdraw(ctx, app, user, after, g.Has, store.TakeOptions{State: Cancelled, Read: Contents, Others: store.AllOthers})
		_ = store.LeaveToWorkers(ctx, done.Taken) // else it takes a little longer
		w.Count(done)
		after = done.Next
	}
	if err != nil {
		return w, fmt.Errorf("withdraw: %w", err)
	}
	return w, nil
}
