package operate

import (
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/worker/control"
)

const (
	// A rate covers at most drainMinutes full minutes. The last one began at most drainRecent
	// minutes ago: otherwise no worker reports the present.
	drainMinutes = 5
	drainRecent  = 2
	maxDrain     = 30 * 24 * time.Hour // the longest result
)

// stayingCauses are the causes of notifications that leave at a fixed time, or when an operator
// resumes them, whatever the rate of the other notifications is.
var stayingCauses = []inspect.Cause{inspect.ForSchedule, inspect.ForLimit, inspect.ForQuiet, inspect.ForPause}

// drainsIn returns how long it takes at the present rate until all leaving notifications have
// left. These are all waiting ones except for stayingCauses: scheduled for later, held by the user's
// limits or quiet hours until their slot, or paused by an operator.
//
// The rate is the average decrease of all waiting notifications per full minute since the highest
// backlog of the last five minutes. If there is no decrease, but a quota, a throughput or a
// device's limit holds notifications, the rate is the number that ended in the last full minute:
// the limit grants about as many, and notifications accepted meanwhile do not count. Otherwise, or
// if no worker has reported the last two minutes, the result is 0: unknown.
func drainsIn(waits []inspect.Share, minutes []control.Minute, now time.Time) time.Duration {
	var leaving, overQuota int64
	for _, s := range waits {
		if !slices.Contains(stayingCauses, s.For) {
			leaving += s.Count
		}
		if s.For == inspect.ForQuota {
			overQuota = s.Count
		}
	}
	running := now.UTC().Truncate(time.Minute)
	var peak, last *control.Minute
	for i := range minutes {
		m := &minutes[i]
		if m.Waiting == nil || !m.At.Before(running) || m.At.Before(running.Add(-drainMinutes*time.Minute)) {
			continue
		}
		if last = m; peak == nil || *m.Waiting >= *peak.Waiting {
			peak = m
		}
	}
	if leaving == 0 || last == nil || last.At.Before(running.Add(-drainRecent*time.Minute)) {
		return 0
	}
	gone, in := *peak.Waiting-*last.Waiting, last.At.Sub(peak.At)
	if gone == 0 && overQuota > 0 {
		in = time.Minute
		for _, n := range last.Ended {
			gone += n
		}
	}
	if gone == 0 {
		return 0
	}
	return time.Duration(min(float64(leaving)/float64(gone)*float64(in), float64(maxDrain))).Round(time.Second)
}
