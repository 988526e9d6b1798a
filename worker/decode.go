package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/pushpace/pushpace/internal/base/zone"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/queue"
)

// decode reads the job.
func decode(job *queue.Job) (*delivery, error) {
	decoded, err := push.Decode(job.Payload)
	if err != nil {
		return nil, err
	}
	if job.ID != decoded.Notification.ID {
		return nil, &store.MalformedError{Reason: store.MalformedNotification, Err: errors.New("the task has another ID than its notification")}
	}
	in, _ := zone.Load(decoded.Notification.TimeZone) // see knowsZone
	d := &delivery{
		Notification: decoded.Notification, accepted: decoded.AcceptedAt, zone: in, back: job.Back, first: job.Last.First, job: job.Payload, queue: job.Queue, hand: job.Hand, failures: job.Failures, term: job.Term, at: job.At, arrived: job.Arrived,
		replay:   decoded.Replay,
		outcomes: make([]outcome, len(decoded.Notification.Targets)),
		held:     job.Parked || job.Last.Why != "" && job.Last.Why != store.Deferred,
	}
	d.known = d.returned(job.Last.Why)
	if d.Digest != nil && d.Priority != push.Critical {
		d.digest = d.Notification
	}
	return d, nil
}

// returned reports whether an earlier visit has put the notification off or found it held.
// A wait for its NotBefore does not count: the limiter was not asked yet. It began
// before NotBefore, by another clock than this machine's.
func (d *delivery) returned(why store.Why) bool {
	early := why == store.Deferred && d.back.Before(d.NotBefore.Add(-time.Second))
	return why != "" && !early
}

// knowsZone tells, at the first visit, of a job with a time zone that there is not: an older
// program or another one has put it on the queue, or the zones of this one are older.
func (h *handler) knowsZone(ctx context.Context, d *delivery) {
	if d.TimeZone == "" || d.zone != nil || !d.back.IsZero() {
		return
	}
	h.Observer.UnknownTimeZone()
	h.repeats.Tell(ctx, h.Log, slog.LevelWarn, "jobs name a time zone that there is not: limits.time_zone is taken, which says when their users' quiet hours are",
		nil, slog.String("app", d.App), slog.String("id", d.ID), slog.String("time_zone", d.TimeZone))
}

// clock is the zone by which its user's quiet hours are.
func (d *delivery) clock() *time.Location {
	if d.zone != nil {
		return d.zone
	}
	for i := range d.scopes {
		if in := d.scopes[i].Policy.Night.Zone; in != nil {
			return in
		}
	}
	return time.UTC
}
