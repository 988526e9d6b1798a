package throttle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// An admission is a grant that its caller received and uses.
type admission struct {
	job     *job
	scopes  []Scope // with the policies in force at the worker that asked
	order   int     // its position among all decisions
	at      int64   // Decision.At in µs
	instant int64   // server time of the decision plus the time by which At was ahead, in µs
	void    bool    // given back before anything was sent
}

func (a *admission) has(scope string) bool {
	return slices.ContainsFunc(a.scopes, func(s Scope) bool { return s.Name == scope })
}

// tolerance is how much closer than allowed two admissions may be, in µs.
const tolerance = 1000

// judge checks the log, and the keys at the end.
func (w *world) judge() {
	if len(w.faults) == 0 && len(w.unfinished()) > 0 {
		w.fault("never ended: %s", w.unfinished())
	}
	for _, x := range w.log {
		if !x.void {
			w.judgeNight(x)
			w.judgeAdmission(x, "stamps", func(a *admission) int64 { return a.at })
			if w.p.jolts == 0 {
				w.judgeAdmission(x, "instants", func(a *admission) int64 { return a.instant })
			}
		}
	}
	if len(w.faults) == 0 {
		w.judgeKeys()
	}
}

func (w *world) unfinished() []string {
	var ids []string
	for _, j := range w.jobs {
		if j.open > 0 {
			ids = append(ids, j.id)
		}
	}
	return ids
}

// judgeAdmission checks an admission against all earlier decisions, under its own policies: the
// admission and n others must span the period. A notification that was admitted twice counts at
// each of its times, but once in a window. If the server's clock steps, only the notification's
// last admission counts, as in the timeline.
func (w *world) judgeAdmission(x *admission, of string, instant func(*admission) int64) {
	for _, scope := range x.scopes {
		for i, rule := range scope.Policy.appendRules(nil) {
			span := rule.period - tolerance
			if span <= 0 {
				continue
			}
			near := []*admission{x}
			for _, y := range w.log {
				if y.order < x.order && y.job != x.job && y.job.user == x.job.user && !y.void && y.has(scope.Name) &&
					!(w.p.jolts > 0 && w.admittedAgain(y, x.order)) && instant(y) > instant(x)-span && instant(y) < instant(x)+span {
					near = append(near, y)
				}
			}
			for _, start := range near {
				from := instant(start)
				if from > instant(x) {
					continue
				}
				window := map[*job]int64{}
				for _, y := range near {
					if instant(y) >= from && instant(y) < from+span {
						window[y.job] = instant(y)
					}
				}
				if _, ok := window[x.job]; ok && len(window) > rule.n {
					w.fault("by their %s %s in %q of %s are too close for %s (%d in %v): %s", of, x.job.id, scope.Name,
						x.job.user.name, scope.Policy.ruleName(i), rule.n, time.Duration(rule.period)*time.Microsecond, spell(window))
					return
				}
			}
		}
	}
}

// admittedAgain reports whether a's job was, or by a call without a reader of its reply may have
// been, admitted again before the position before.
func (w *world) admittedAgain(a *admission, before int) bool {
	if unheard := a.job.unheard; unheard > a.order && unheard < before {
		return true
	}
	return slices.ContainsFunc(w.log, func(b *admission) bool {
		return b.job == a.job && !b.void && b.order > a.order && b.order < before
	})
}

func spell(window map[*job]int64) string {
	var lines []string
	for j, at := range window {
		lines = append(lines, fmt.Sprintf("%+.3f ms %s", float64(at-epoch.UnixMicro())/1000, j.id))
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

// judgeKeys checks the server's keys at the end.
func (w *world) judgeKeys() {
	ctx := context.Background()
	w.setTime()
	for _, key := range w.redis.Keys() {
		if w.redis.TTL(key) <= 0 {
			w.fault("%s has no expiry", key)
		}
	}
	for _, u := range w.users {
		w.judgeSlots(u)
		for _, category := range u.categories {
			r := w.workers[0].request(&job{user: u, category: category})
			k := userKeys("sim", &r)
			for _, scope := range r.Scopes {
				set := k.sent
				if scope.Name != General {
					set = k.catSent
				}
				w.judgeSent(u, scope.Name, set)
			}
		}
	}
	// an idle user leaves nothing behind
	w.now.Add(3 * w.p.keep.Microseconds() * 10)
	w.setTime()
	w.must(w.raw.Exists(ctx, "tick").Err())
	if keys := w.redis.Keys(); len(keys) > 0 {
		w.fault("idle users leave the keys %s", keys)
	}
}

// judgeSlots checks that ended jobs hold no slot, and that counts and marks agree with the slots.
func (w *world) judgeSlots(u *simUser) {
	ctx := context.Background()
	k := userKeys("sim", &Request{User: u.name})
	slots, err := w.raw.ZRange(ctx, k.slots, 0, -1).Result()
	w.must(err)
	for _, member := range slots {
		_, id := lineOf(member)
		if j := w.job(u, id); j == nil || j.ghost < j.over {
			w.fault("%s still has a slot", id)
		}
	}
	for _, fault := range faultsOfSlots(ctx, w.raw, &k) {
		w.fault("%s", fault)
	}
}

// judgeSent compares a scope's timeline with the log.
func (w *world) judgeSent(u *simUser, scope, set string) {
	entries, err := w.raw.ZRangeWithScores(context.Background(), set, 0, -1).Result()
	w.must(err)
	known := map[string]int64{}
	for _, e := range entries {
		known[e.Member.(string)] = int64(e.Score)
	}
	stamps := map[*job]int64{}
	for _, a := range w.log {
		if a.job.user == u && a.has(scope) && !a.void {
			stamps[a.job] = max(stamps[a.job], a.at)
		}
	}
	for j, at := range stamps {
		got, ok := known[member(j.id)]
		if trimmed := at < w.serverNow()-w.p.keep.Microseconds(); (!ok && !trimmed || ok && got < at) && !j.cancelled {
			w.fault("%s was admitted at %d, and %s has it at %d", j.id, at, set, got)
		}
		delete(known, member(j.id))
	}
	for m := range known {
		i := slices.IndexFunc(w.jobs, func(j *job) bool { return member(j.id) == m })
		if i < 0 || w.jobs[i].ghost < w.jobs[i].over && !w.jobs[i].troubled {
			w.fault("%s is in %s, and was not admitted", m, set)
		}
	}
}

func (w *world) job(u *simUser, id string) *job {
	for _, j := range w.jobs {
		if j.user == u && j.id == id {
			return j
		}
	}
	return nil
}

func (w *world) report(test string) string {
	return fmt.Sprintf("seed %d, plan %+v (again with -run '^%s$' -seed %d -v):\n\t%s", w.seed, w.p, test, w.seed, strings.Join(w.faults, "\n\t"))
}

// figures count the events of histories.
type figures struct {
	runs                              int
	trips, acquires, deliveries, most int
	granted, refused                  int
	held, passed                      int
	lost, ghosts, crashes             int
	twins, cancels, changes, jolts    int
}
