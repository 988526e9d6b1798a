package throttle

import (
	"time"

	"github.com/pushpace/pushpace/internal/base/zone"
	"github.com/pushpace/pushpace/throttle/quiet"
)

// Half of the histories have quiet hours of one or two minutes, which begin or end two seconds
// after the epoch in one of the zones.

// windows are at minutes of the epoch's hour in UTC, Berlin and Kolkata.
var windows = []string{"03:04-03:05", "03:05-03:06", "03:06-03:07", "03:04-03:06", "04:04-04:05", "04:05-04:07", "08:34-08:35", "08:35-08:36"}

// planNight draws whether there are quiet hours, and in which zones users are.
func (w *world) planNight() {
	if w.rng.IntN(2) == 0 {
		return
	}
	w.p.keep += 4 * time.Minute // slots may move by a night without a wake-up
	w.p.night, w.p.spread = true, time.Duration(w.rng.IntN(2)*w.rng.IntN(20))*time.Second
	names := []string{"UTC", "Europe/Berlin", "Asia/Kolkata"}[:1+w.rng.IntN(2)*w.rng.IntN(3)]
	for _, name := range names {
		in, err := zone.Load(name)
		w.must(err)
		w.p.zones = append(w.p.zones, in)
	}
}

// setQuiet sets the policy's quiet hours to windows, to none, or to nil.
func (w *world) setQuiet(p Policy) Policy {
	if !w.p.night {
		return p
	}
	switch p.Quiet, p.Night = nil, (quiet.Night{Spread: w.p.spread}); w.rng.IntN(5) {
	case 0:
	case 1:
		p.Quiet = quiet.Hours{}
	default:
		for _, i := range w.rng.Perm(len(windows))[:1+w.rng.IntN(2)] {
			window, err := quiet.Parse(windows[i])
			w.must(err)
			p.Quiet = append(p.Quiet, window)
		}
	}
	return p
}

// night draws the job's zone, and whether it passes quiet hours.
func (w *world) night(j *job) {
	if w.p.night {
		j.zone, j.passes = w.p.zones[w.rng.IntN(len(w.p.zones))], w.rng.IntN(6) == 0
	}
}

// closed reports whether quiet hours hold the job at that time.
func (w *world) closed(j *job, scopes []Scope, at int64) bool {
	r := Request{User: j.user.name, Scopes: scopes, Zone: j.zone}
	return !j.passes && r.closed(at).opened(at) != at
}

// judgeNight checks an admission against the quiet hours of its decision.
func (w *world) judgeNight(a *admission) {
	if w.closed(a.job, a.scopes, a.at) {
		w.fault("%s is admitted at %+.3f ms, in quiet hours", a.job.id, float64(a.at-epoch.UnixMicro())/1000)
	}
}

// judgeSlot checks a slot or a wake-up against quiet hours, unless limits change.
func (w *world) judgeSlot(what string, j *job, scopes []Scope, at time.Time) {
	if w.p.changes == 0 && w.closed(j, scopes, at.UnixMicro()) {
		w.fault("%s %s for %+.3f ms, in quiet hours", j.id, what, float64(at.UnixMicro()-epoch.UnixMicro())/1000)
	}
}
