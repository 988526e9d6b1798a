package operate

import (
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/worker/control"
)

const (
	// A rate is that of so many full minutes at most, the last of which began at most so many
	// minutes ago: else no worker tells of the present.
	drainMinutes = 5
	drainRecent  = 2
	drainMost    = 30 * 24 * time.Hour // more is told as so much
)

// staying are what notifications wait for that leave at an instant of their own, or when an
// operator says so, however fast others go.
var staying = []inspect.Cause{inspect.ForSchedule, inspect.ForLimit, inspect.ForQuiet, inspect.ForPause}

// drainsIn returns how long it takes at the present rate until what may leave has left: all
// that waits but for what is scheduled for later, what its user's limits or quiet hours hold
// until its slot, and what an operator's pause holds.
//
// The rate is by how much fewer waited, of all, at the end of each full minute since the most
// waited, within the last five. Where no fewer wait, but a quota, a throughput or a device's
// limit holds some, it is how many ended in the last full minute: so many does the limit let
// through, and those that are accepted meanwhile are not counted. Otherwise, and where no
// worker has told of the last two minutes, it is not known: 0.
func drainsIn(waits []inspect.Share, minutes []control.Minute, now time.Time) time.Duration {
	var leaving, overQuota int64
	for _, s := range waits {
		if !slices.Contains(staying, s.For) {
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
	return time.Duration(min(float64(leaving)/float64(gone)*float64(in), float64(drainMost))).Round(time.Second)
}
