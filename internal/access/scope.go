package access

import (
	"context"
	"slices"
	"strings"

	"github.com/pushpace/pushpace/internal/names"
	"github.com/pushpace/pushpace/internal/quotas"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/pause"
)

// A bearer that is for some apps alone sees and changes what is theirs. What is another
// app's is to it as what is not there; what is everybody's it may not change, and sees
// where it concerns an app of its own.

// An OthersError refuses what is not of the bearer's apps alone. It is the same whether
// it is there or not.
type OthersError struct{ Apps []string }

// Error implements error.
func (e *OthersError) Error() string {
	of := "the app "
	if len(e.Apps) > 1 {
		of = "the apps "
	}
	return "the token is for " + of + strings.Join(e.Apps, ", ") + " alone, and this is another's or everybody's"
}

// Own returns nil for what is of an app of its own, else an *OthersError; for a bearer of
// all apps nil. What names no app is everybody's.
func (b Bearer) Own(app string) error {
	if b.Sees(app) {
		return nil
	}
	return &OthersError{b.Apps}
}

// Everybody returns nil for a bearer of all apps, else an *OthersError: for what cannot be
// told by app.
func (b Bearer) Everybody() error {
	if b.Apps == nil {
		return nil
	}
	return &OthersError{b.Apps}
}

// SeesLevel reports whether it may list what is set at the level: its app is one of its
// own, or an app of its own uses the quota.
func (b Bearer) SeesLevel(l limits.Level, all quotas.Quotas) bool {
	return b.ofLevel(l, all, slices.ContainsFunc[[]string, string])
}

// OwnsLevel returns nil where it may set the level: its app is one of its own, or all
// apps that use the quota are. Else it returns an *OthersError.
func (b Bearer) OwnsLevel(l limits.Level, all quotas.Quotas) error {
	every := func(apps []string, sees func(string) bool) bool {
		return len(apps) > 0 && !slices.ContainsFunc(apps, func(app string) bool { return !sees(app) })
	}
	if b.ofLevel(l, all, every) {
		return nil
	}
	return &OthersError{b.Apps}
}

func (b Bearer) ofLevel(l limits.Level, all quotas.Quotas, enough func(apps []string, sees func(string) bool) bool) bool {
	if b.Apps == nil || l.Quota == "" {
		return b.Sees(l.App)
	}
	q, err := all.Find(l.Quota)
	return err == nil && enough(q.Apps, b.Sees)
}

// Configured returns those of the configuration's apps that it sees, by which an app of
// its own is looked for: one that waits for a restart is not there, and no other is named.
func (b Bearer) Configured(all names.Apps) names.Apps {
	if b.Apps == nil || all == nil {
		return all
	}
	its := names.Apps{}
	for _, app := range b.Apps {
		if platforms, there := all[app]; there {
			its[app] = platforms
		}
	}
	return its
}

// Quotas returns what it sees of these: those that an app of its own uses, with the apps
// of its own.
func (b Bearer) Quotas(all quotas.Quotas) quotas.Quotas {
	if b.Apps == nil {
		return all
	}
	var its quotas.Quotas
	for _, q := range all {
		q.Apps = slices.DeleteFunc(slices.Clone(q.Apps), func(app string) bool { return !b.Sees(app) })
		if len(q.Apps) > 0 {
			its = append(its, q)
		}
	}
	return its
}

// Pauses returns those of these that touch an app of its own: those of such an app, and
// those of every app.
func (b Bearer) Pauses(all []pause.Pause) []pause.Pause {
	if b.Apps == nil {
		return all
	}
	its := []pause.Pause{}
	for _, p := range all {
		if p.App == "" || b.Sees(p.App) {
			its = append(its, p)
		}
	}
	return its
}

// Log returns the newest changes of limits that it sees, before a version, 0 for all, the
// newest first, at most so many.
func (b Bearer) Log(ctx context.Context, overrides *limits.Overrides, all quotas.Quotas, before int64, newest int) ([]limits.Change, error) {
	if b.Apps == nil {
		return overrides.Log(ctx, before, newest)
	}
	its := []limits.Change{}
	for {
		some, err := overrides.Log(ctx, before, logPage)
		if err != nil {
			return nil, err
		}
		for _, c := range some {
			if b.SeesLevel(c.Level, all) {
				its = append(its, c)
			}
		}
		if len(some) < logPage || len(its) >= newest {
			return its[:min(len(its), newest)], nil
		}
		before = some[len(some)-1].Version
	}
}

// logPage is how many of the log's entries, of which limits.LogKept are kept, are looked
// at in one round trip.
const logPage = 1000

// Notification returns nil for the ID of one that it sees, and push.ErrUnknownID for any
// other. Of a bearer of all apps it does not look, and returns nil.
func (b Bearer) Notification(ctx context.Context, records *push.Records, id string) error {
	if b.Apps == nil {
		return nil
	}
	_, err := b.Record(ctx, records, id)
	return err
}

// Record returns the record of the notification with that ID, and push.ErrUnknownID for
// one that it does not see.
func (b Bearer) Record(ctx context.Context, records *push.Records, id string) (*push.Record, error) {
	record, err := records.Lookup(ctx, id)
	if err == nil && !b.Sees(record.App) {
		return nil, push.ErrUnknownID
	}
	return record, err
}

// Letter returns the dead letter with that ID, and push.ErrNoLetter for one that it does
// not see. One whose job cannot be read is no app's.
func (b Bearer) Letter(ctx context.Context, records *push.Records, id string) (*push.Letter, error) {
	l, err := records.Letter(ctx, id)
	if err != nil || b.Apps == nil {
		return l, err
	}
	if job, err := push.Decode(l.Job); err != nil || !b.Sees(job.Notification.App) {
		return nil, push.ErrNoLetter
	}
	return l, nil
}

// KnowsLetter returns nil for the ID of a dead letter that it sees, and push.ErrNoLetter
// for any other. Of a bearer of all apps it does not look, and returns nil.
func (b Bearer) KnowsLetter(ctx context.Context, records *push.Records, id string) error {
	if b.Apps == nil {
		return nil
	}
	_, err := b.Letter(ctx, records, id)
	return err
}
