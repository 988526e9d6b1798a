package operate

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/clock"
)

// An appUser is a user of an app.
type appUser struct{ app, user string }

// readUsers reads the users that wait for the level's limits, until PreviewBudget ends.
func (m *previewRun) readUsers(ctx context.Context) error {
	if !m.many.TryLock() {
		return ErrPreviewBusy
	}
	defer m.many.Unlock()
	budget := PreviewBudget
	if ends, some := ctx.Deadline(); some { // the answer must be ready before the deadline
		budget = min(budget, time.Until(ends)*2/3)
	}
	over := time.Now().Add(budget)
	users, more, err := m.waitingUsers(ctx, budget/2)
	if err != nil {
		return err
	}
	m.preview.Users = Looked{Of: len(users), More: more}
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(readers)
	for _, one := range users {
		reads.Go(func() error {
			if ctx.Err() != nil || !time.Now().Before(over) { // it has waited for a reader
				return nil
			}
			return m.tryUser(ctx, one)
		})
	}
	return reads.Wait()
}

// waitingUsers lists the users that wait for the level's limits. The list may be incomplete; more
// reports whether it was cut off.
func (m *previewRun) waitingUsers(ctx context.Context, within time.Duration) (all []appUser, more bool, err error) {
	scanning, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	known := map[appUser]bool{}
	errEnough := errors.New("enough")
	err = m.Lines.Waiting(scanning, func(app, user string) error {
		one := appUser{app, user}
		if m.level.App != "" && m.level.App != app || known[one] {
			return nil
		}
		if len(all) == maxUsers {
			return errEnough
		}
		known[one], all = true, append(all, one)
		return nil
	})
	if errors.Is(err, errEnough) || scanning.Err() != nil && ctx.Err() == nil {
		return all, true, nil
	}
	return all, false, err
}

// tryUser reads one of many users. It leaves out a user that cannot be read, unless Redis is
// unavailable.
func (m *previewRun) tryUser(ctx context.Context, one appUser) error {
	began := time.Now()
	_, err := m.readMoves(ctx, one.app, one.user)
	switch {
	case errors.Is(err, throttle.ErrUnavailable), ctx.Err() != nil:
		return err
	case err == nil:
		m.mu.Lock()
		m.preview.Users.At++
		m.mu.Unlock()
	}
	return clock.Sleep(ctx, time.Since(began))
}
