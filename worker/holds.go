package worker

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/route"
	"github.com/pushpace/pushpace/worker/watch"
)

// holds are the operators' pauses and the closed routes: they keep jobs on the queue, and
// bring them back when they are over.
type holds struct {
	*Options
	routes  *route.Routes
	pauses  *pause.Store
	control *control.Control
	feed    *watch.Feed
	side    *side

	inForce  atomic.Pointer[pause.InForce] // as it was read last
	looks    route.Stagger                 // of the jobs that are kept
	resuming sync.Map                      // by selector or route: its jobs are being woken
}

// operator returns the operator's pause of the delivery's target; nil for none.
func (h *holds) operator(d *delivery, i int, now time.Time) *pause.Pause {
	return h.inForce.Load().On(now, d.App, d.Targets[i].Platform, d.Category)
}

// keep marks the targets whose route is closed, by trouble or by an operator, and reports
// whether all that are still open wait for theirs.
func (h *holds) keep(d *delivery) bool {
	now := time.Now()
	kept, free := 0, 0
	for i, r := range d.routes {
		o := &d.outcomes[i]
		if r == nil || !o.open() {
			continue
		}
		o.skip = skip{}
		if p := h.operator(d, i, now); p != nil {
			o.skip = skip{reason: pausedByOperator, pause: p}
		} else if r.Left(now) > 0 {
			o.skip = skip{reason: routeClosed}
		}
		if o.skip.some() {
			kept++
		} else {
			free++
		}
	}
	return kept > 0 && free == 0
}

// remember notes what closed routes and operators' pauses keep of the delivery, so that it
// comes back when they are over. With an operator's pause those come back as well that have
// come forward by what it gave back: asynq would bring them for their old slots. It reports
// whether all is noted.
func (h *holds) remember(ctx context.Context, d *delivery, moved []throttle.Booking) bool {
	noted, all := map[string]bool{}, true
	for i := range d.outcomes {
		s := d.outcomes[i].skip
		if !s.woken() {
			continue
		}
		by := s.selector(d.routes[i])
		if noted[by] {
			continue
		}
		noted[by] = true
		jobs := []pause.Job{{Queue: d.queue, ID: d.ID}}
		if s.reason == pausedByOperator && len(moved) > 0 {
			gained, err := h.control.Gained(ctx, moved[:min(len(moved), wakeMost)])
			if err != nil {
				h.RedisLog.LogAttrs(ctx, slog.LevelWarn, "those behind a paused notification come for their old slots", slog.Any("error", err))
			}
			for _, id := range gained {
				jobs = append(jobs, pause.Job{ID: id})
			}
			moved = nil // once
		}
		if err := h.pauses.AddJobs(ctx, by, d.Priority, d.accepted, jobs...); err != nil {
			h.RedisLog.LogAttrs(ctx, slog.LevelWarn, "a paused notification resumes late", slog.String("id", d.ID), slog.Any("error", err))
			all = false
		}
	}
	return all
}

// look is after how long a job of that queue that is kept looks by itself whether it still
// is.
func (h *holds) look(queue string, now time.Time) time.Duration {
	return h.looks.Next(queue, now, longestLook)
}

// unnotedLook is after how long one looks again that nothing will wake.
const unnotedLook = 10 * time.Second
