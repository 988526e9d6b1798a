package worker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/quiet"
)

// A night has quiet hours in UTC that began an hour ago and end within the next hour.
type night struct {
	hours quiet.Hours
	ends  time.Time
}

// inANight returns the policy with quiet hours that last longer than the test.
func inANight(t *testing.T, p throttle.Policy) (throttle.Policy, night) {
	t.Helper()
	now := time.Now().UTC()
	ends := now.Add(time.Hour).Truncate(time.Minute)
	hours, err := quiet.ParseHours([]string{now.Add(-time.Hour).Format("15:04") + "-" + ends.Format("15:04")})
	must(t, err)
	p.Quiet, p.Night = hours, quiet.Night{Zone: time.UTC}
	return p, night{hours, ends}
}

// A notification in quiet hours waits for their end, and its status says so even without a limiter. A
// critical notification does not wait, nor does one of a category with its own hours or of a user in a
// different zone.
func TestQuietHoursDeferNotification(t *testing.T) {
	client := oneRedis(t)
	const gap = 2 * time.Second
	general, night := inANight(t, throttle.Policy{MinGap: gap})
	r := newRig(t, client, limits.New(general, map[string]throttle.Policy{"alerts": {Quiet: quiet.Hours{}}, "security": {Exempt: true}}))
	log := r.logs()
	r.start()
	for i := range 3 {
		r.enqueue(to(fmt.Sprint("held-", i)))
		r.deferred(fmt.Sprint("held-", i))
	}
	for i, q := range r.queued(inspect.Selection{For: inspect.ForQuiet}) {
		if q.Scope != throttle.General || q.Until.Before(night.ends) {
			t.Errorf("%s: %+v", i, q)
		}
	}
	if shares := r.shares(100); shares[inspect.ForQuiet].Count != 3 {
		t.Errorf("%+v", shares)
	}
	first, last := r.status("held-0", inspect.ForQuiet).Waits, r.status("held-2", inspect.ForQuiet).Waits
	if !first.QuietUntil.Equal(night.ends) || first.Until.Sub(night.ends).Abs() > time.Second || first.Rule != throttle.QuietRule {
		t.Errorf("the first waits for %+v", first)
	}
	if !last.QuietUntil.Equal(night.ends) || last.Until.Sub(night.ends) < 2*gap || last.Rule != throttle.GapRule {
		t.Errorf("the last waits for %+v", last)
	}
	untold, err := inspect.New(client, r.records, nil, r.options.Limits).Status(t.Context(), push.Ref{ID: "held-2"})
	if err != nil || untold.Waits.For != inspect.ForQuiet || !untold.Waits.QuietUntil.Equal(night.ends) {
		t.Errorf("without a limiter: %+v, %v", untold.Waits, err)
	}

	away := to("away")
	away.User, away.TimeZone = "u2", "Etc/GMT+12" // where these hours are half a day later
	foreign := to("foreign")
	foreign.User, foreign.TimeZone = "u3", "Mars/Olympus"
	critical := to("critical")
	critical.Priority = push.Critical
	alert, exempt := to("alert"), to("exempt")
	alert.User, alert.Category, exempt.Category = "u4", "alerts", "security"
	r.enqueue(away)
	r.enqueueRaw(foreign)
	r.enqueue(critical)
	r.enqueue(alert)
	r.enqueue(exempt)
	r.settled(4)
	if all := r.pushed(""); len(all) != 4 || len(r.pushed("foreign")) != 0 {
		t.Errorf("pushed %+v", all)
	}
	if w := r.status("foreign", inspect.ForQuiet).Waits; !w.QuietUntil.Equal(night.ends) {
		t.Errorf("one with an unknown zone waits for %+v", w)
	}
	r.seen.mu.Lock()
	unknown := r.seen.noZone
	r.seen.mu.Unlock()
	if named := strings.Count(log.String(), "time_zone=Mars/Olympus"); unknown != 1 || named != 1 {
		t.Errorf("counted %d, named %d times", unknown, named)
	}
	if line := r.timeline("u1").Bookings; len(line) != 3 || line[0].ID != "held-0" || line[0].Slot.Before(night.ends) {
		t.Errorf("there wait %+v", line)
	}

	// a second critical notification waits for the gap, without a slot
	next := to("next")
	next.Priority = push.Critical
	r.enqueue(next)
	r.settled(5)
	if record := r.record("next"); record.State != push.Delivered {
		t.Errorf("%+v", record)
	}
}

// enqueueRaw enqueues the notification without a producer's validation.
func (r *rig) enqueueRaw(n *push.Notification) {
	r.t.Helper()
	payload, err := push.Encode(&push.Job{Notification: n, AcceptedAt: time.Now()})
	must(r.t, err)
	at, err := r.records.Of(r.t.Context(), n.App, n.User)
	must(r.t, err)
	must(r.t, r.records.NewAcceptor().Enqueue(r.t.Context(), at.NewAcceptance(n.ID, push.Default.Queue(), payload, nil, store.Facts{App: n.App, User: n.User})))
}

// A notification that would expire in quiet hours ends at once. A notification that expires after their
// end waits.
func TestExpiryInQuietHoursEndsAtOnce(t *testing.T) {
	policy, night := inANight(t, throttle.Policy{})
	r := newRig(t, oneRedis(t), limits.New(policy, nil))
	r.start()
	short, critical, atTheEnd := to("short"), to("critical"), to("at-the-end")
	short.TTL, critical.TTL = push.Duration(5*time.Minute), push.Duration(5*time.Minute)
	critical.Priority = push.Critical
	atTheEnd.ExpiresAt = night.ends.Add(time.Second)
	r.enqueue(short)
	r.enqueue(critical)
	r.enqueue(atTheEnd)
	counts := r.settled(2)
	if record := r.record("short"); record.State != push.Expired || record.Error != "would expire in quiet hours" {
		t.Errorf("%+v", record)
	}
	if counts.Ended[push.Delivered] != 1 || len(r.pushed("critical")) != 1 {
		t.Errorf("counts %+v", counts)
	}
	if until := r.deferred("at-the-end").Until; until.Sub(night.ends).Abs() > time.Second {
		t.Errorf("it waits until %s", until)
	}
}

// An override replaces the whole policy with its quiet hours. It at once reschedules the deferred
// notifications of its user earlier, and of no other user.
func TestOverrideEndsQuietHours(t *testing.T) {
	const n = 3
	policy, night := inANight(t, throttle.Policy{MinGap: time.Minute})
	r, overrides := tuned(t, oneRedis(t), policy, nil)
	r.startTwo()
	r.enqueueMany("held", n)
	other, zoned := to("other"), to("zoned")
	other.User, zoned.TimeZone = "u2", "Africa/Abidjan"
	r.enqueue(other)
	r.enqueue(zoned)
	for _, id := range []string{"held-0", "held-1", "held-2", "zoned", "other"} { // maybe of two shards
		wait(t, func() bool {
			status, err := r.inspector().Status(t.Context(), push.Ref{ID: id})
			return err == nil && status.Job == "retry"
		})
	}
	must(t, overrides.Set(t.Context(), limits.Override{Level: limits.Level{User: "u1"}, Policy: every(time.Second), By: "ann"}))
	if counts := r.settled(n + 1); counts.Ended[push.Delivered] != n+1 || len(r.pushed("other")) != 0 {
		t.Errorf("counts %+v", counts)
	}
	if w := r.status("other", inspect.ForQuiet).Waits; !w.QuietUntil.Equal(night.ends) {
		t.Errorf("the other waits for %+v", w)
	}
}

// A worker that starts logs overrides with quiet hours in UTC, if the configuration has no zone.
func TestQuietHoursWithoutZoneAreLogged(t *testing.T) {
	r, overrides := tuned(t, oneRedis(t), every(time.Second), nil)
	quietly, _ := inANight(t, throttle.Policy{})
	for _, level := range []limits.Level{{User: "u"}, {Category: "news"}} {
		must(t, overrides.Set(t.Context(), limits.Override{Level: level, Policy: throttle.Policy{Quiet: quietly.Quiet, MinGap: time.Second}, By: "ada"}))
		log := r.logs()
		r.start()
		if !strings.Contains(log.String(), "quiet hours of overrides use UTC") {
			t.Errorf("%+v: not logged", level)
		}
		_, err := overrides.Unset(t.Context(), level, "ada")
		must(t, err)
	}
}
