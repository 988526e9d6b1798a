// Package digest is a notification's part in a digest, during a visit of its job.
package digest

import (
	"context"
	"fmt"
	"time"

	"github.com/pushpace/pushpace/internal/base/strictjson"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// A Part is what is known of it by now. It is for one goroutine at a time.
type Part struct {
	digest   store.Digest
	own      *push.Notification // as it was accepted
	accepted time.Time
	told     store.Told
	push     *push.Notification
	final    bool // nobody joins any more
}

// Of returns the part of a notification that was accepted then: nil for one that has no
// digest, and for a critical one, which goes by itself.
func Of(at *store.Shard, n *push.Notification, accepted time.Time) *Part {
	if n.Digest == nil || n.Priority == push.Critical {
		return nil
	}
	return &Part{digest: at.Digest(n.App, n.User, n.Category, n.Digest.Key), own: n, accepted: accepted, push: n}
}

// Look learns what earlier visits have left: what the notification carries.
func (p *Part) Look(ctx context.Context) error {
	told, err := p.digest.Look(ctx, p.own.ID)
	if err != nil {
		return err
	}
	return p.learn(told)
}

// Join has the notification join one that waits: into says which, and ended that it had
// ended before. Where none waits, and carry says so, others join it from now on, for the time
// that it waits.
func (p *Part) Join(ctx context.Context, carry bool, wait time.Duration) (into string, ended bool, err error) {
	text, err := strictjson.Encode(p.own)
	if err != nil {
		return "", false, fmt.Errorf("digest: %w", err)
	}
	part, err := p.digest.Join(ctx, &store.Joiner{
		ID: p.own.ID, Accepted: p.accepted, Expires: p.own.ExpiresAt, Title: p.own.Title, JSON: text, Targets: push.Unsent(p.own.Targets),
	}, carry, wait, push.MaxDigest)
	if err == nil && part.Carries && !p.final {
		err = p.learn(part.Told)
	}
	return part.Into, part.Ended, err
}

// Seal has nobody join any more. It comes before the push and before any end, and is made
// once a visit. ended says that the notification had ended before.
func (p *Part) Seal(ctx context.Context) (ended bool, err error) {
	if p.final {
		return false, nil
	}
	told, err := p.digest.Seal(ctx, p.own.ID)
	if err != nil || told.Ended {
		return told.Ended, err
	}
	err = p.learn(told)
	p.final = err == nil
	return false, err
}

func (p *Part) learn(told store.Told) error {
	carried := push.Carried{IDs: told.IDs, Titles: told.Titles, ExpiresAt: told.Expires}
	if len(told.IDs) > 1 {
		carried.Newest = new(push.Notification)
		if err := strictjson.Decode(told.Newest, carried.Newest); err != nil {
			return fmt.Errorf("digest: the newest one: %w", err)
		}
	}
	p.told, p.push, p.final = told, carried.Push(p.own), told.Sealed
	return nil
}

// Carries reports whether others may have joined the notification, or might still.
func (p *Part) Carries() bool { return len(p.told.IDs) > 0 }

// Push is the notification that tells of all that have joined it by now, and of itself.
func (p *Part) Push() *push.Notification { return p.push }

// Others are the IDs of those that have joined it for good; nil before it is sealed.
func (p *Part) Others() []string {
	if !p.told.Sealed {
		return nil
	}
	return p.told.IDs[1:]
}
