package inspect

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

// The cause and reason of a wait, for each state of job, pauses and workers.
func TestWaitHasCauseAndReason(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 13, 29, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return now.Add(d) }
	apnsAndFCM := &push.Notification{App: "shop", Targets: []push.Target{{Platform: push.APNs}, {Platform: push.FCM}}}
	fcm := &push.Notification{App: "shop", Targets: apnsAndFCM.Targets[1:]}
	later := &push.Notification{App: "shop", Targets: fcm.Targets, NotBefore: at(time.Hour)}
	idle := control.Snapshot{Pulls: true}
	troubled := func(platforms ...push.Platform) (list []pause.Pause) {
		for i, p := range platforms {
			list = append(list, pause.Pause{Kind: pause.Trouble, App: "shop", Platform: p, Reason: "unavailable", Error: "FCM answered 503 UNAVAILABLE",
				At: at(-6 * time.Second), Until: at(time.Duration(27+i) * time.Second)})
		}
		return list
	}
	away := idle
	away.Limits = control.LimitsOutage{Since: at(-time.Minute), Cause: "NOPERM"}
	draining, refused := control.Snapshot{Pulls: true, Draining: true}, control.Snapshot{}
	returned := func(why store.WaitReason, until time.Duration) *store.Place {
		return &store.Place{State: store.JobPutOff, Last: store.Return{Why: why, Detail: "WRONGTYPE"}, Back: at(-5 * time.Second), Due: at(until)}
	}
	pending := &store.Place{State: store.JobPending}
	active := &store.Place{State: store.JobActive}
	accepted := at(-time.Minute)
	quietly := func(slot time.Duration, rule string) *store.Record {
		return &store.Record{Accepted: accepted, Until: at(slot), Scope: throttle.General, Rule: rule}
	}
	quieted := func(until time.Duration) *store.Place { // as deferred to a minute from now
		p := returned(store.Deferred, time.Minute)
		p.Last.Quiet = at(until)
		return p
	}
	slot := func(d time.Duration) *Waiter {
		return &Waiter{Booking: throttle.Booking{Scope: throttle.General, Slot: at(d), Rule: "gap"}}
	}
	operator := func(p push.Platform, until time.Time) pause.Pause {
		return pause.Pause{Kind: pause.Operator, App: "shop", Platform: p, Reason: "sale", At: at(-time.Hour), Until: until}
	}
	refusal := pause.Pause{Kind: pause.Provider, App: "shop", Platform: push.FCM, Reason: "quota", Until: at(time.Minute)}
	deferred := &store.Record{Accepted: accepted, Until: at(time.Hour), Scope: "news", Rule: "1/24h"}
	tried := &store.Record{Accepted: accepted, Attempts: 1, Error: "FCM answered 500"}
	trouble := Waits{For: ForProvider, Platform: push.FCM, Reason: "FCM answered 503 UNAVAILABLE", Since: at(-6 * time.Second), Until: at(27 * time.Second)}
	for name, c := range map[string]struct {
		record  *store.Record
		job     *store.Place
		n       *push.Notification
		pauses  []pause.Pause
		workers []control.Snapshot
		slot    *Waiter
		want    Waits
	}{
		"no job":                {want: Waits{For: ForRecovery, Reason: "it has no job", Since: accepted}},
		"due":                   {job: pending, want: Waits{For: ForWorker, Since: accepted}},
		"due, unreadable":       {job: pending, n: new(push.Notification), want: Waits{For: ForWorker, Since: accepted}},
		"no worker":             {job: pending, workers: []control.Snapshot{}, want: Waits{For: ForWorker, Reason: "no worker runs", Since: accepted}},
		"draining":              {job: pending, workers: []control.Snapshot{draining}, want: Waits{For: ForWorker, Reason: "no worker runs", Since: accepted}},
		"pulls fail":            {job: pending, workers: []control.Snapshot{refused}, want: Waits{For: ForWorker, Reason: "the workers' pulls fail", Since: accepted}},
		"due, paused":           {job: pending, pauses: []pause.Pause{operator("", time.Time{})}, want: Waits{For: ForPause, Reason: "sale", Since: at(-time.Hour)}},
		"due, trouble":          {job: pending, pauses: troubled(push.FCM), want: trouble},
		"trouble of one of two": {job: pending, n: apnsAndFCM, pauses: troubled(push.FCM), want: Waits{For: ForWorker, Since: accepted}},
		"trouble of both":       {job: pending, n: apnsAndFCM, pauses: troubled(push.FCM, push.APNs), want: trouble},
		"trouble of the only target left": {record: &store.Record{Accepted: accepted, Outcomes: []store.TargetOutcome{{Kind: "delivered"}, {}}},
			job: pending, n: apnsAndFCM, pauses: troubled(push.FCM), want: trouble},
		"scheduled":                     {job: &store.Place{State: store.JobScheduled, Due: at(time.Hour)}, workers: []control.Snapshot{}, want: Waits{For: ForSchedule, Since: accepted, Until: at(time.Hour)}},
		"overdue, no worker":            {job: &store.Place{State: store.JobScheduled, Due: at(-time.Minute)}, record: &store.Record{Accepted: at(-time.Hour)}, workers: []control.Snapshot{}, want: Waits{For: ForWorker, Reason: "no worker runs", Since: at(-time.Minute)}},
		"deferred":                      {record: deferred, job: returned(store.Deferred, 59*time.Minute), want: Waits{For: ForLimit, Scope: "news", Rule: "1/24h", Reason: "1/24h of category news", Since: accepted, Until: at(time.Hour)}},
		"deferred, moved forward":       {record: deferred, job: returned(store.Deferred, 59*time.Minute), slot: slot(time.Minute), want: Waits{For: ForLimit, Scope: throttle.General, Rule: "gap", Reason: "gap of the general limits", Since: accepted, Until: at(time.Minute)}},
		"deferred, and paused for less": {record: deferred, job: returned(store.Deferred, 59*time.Minute), pauses: []pause.Pause{operator("", at(time.Minute))}, want: Waits{For: ForLimit, Scope: "news", Rule: "1/24h", Reason: "1/24h of category news", Since: accepted, Until: at(time.Hour)}},
		"quiet hours": {record: quietly(8*time.Hour, throttle.QuietRule), job: quieted(8 * time.Hour),
			want: Waits{For: ForQuiet, QuietUntil: at(8 * time.Hour), Scope: throttle.General, Rule: throttle.QuietRule, Reason: "quiet hours of the general limits", Since: accepted, Until: at(8 * time.Hour)}},
		"quiet hours, and then a limit": {record: quietly(9*time.Hour, "3/1h"), job: quieted(8 * time.Hour),
			want: Waits{For: ForQuiet, QuietUntil: at(8 * time.Hour), Scope: throttle.General, Rule: "3/1h", Reason: "3/1h of the general limits", Since: accepted, Until: at(9 * time.Hour)}},
		"a limit behind quiet hours": {record: quietly(time.Minute, "3/1h"), job: quieted(-time.Minute),
			want: Waits{For: ForLimit, Scope: throttle.General, Rule: "3/1h", Reason: "3/1h of the general limits", Since: accepted, Until: at(time.Minute)}},
		"quiet hours, paused too": {record: quietly(8*time.Hour, throttle.QuietRule), job: quieted(8 * time.Hour), pauses: []pause.Pause{operator("", time.Time{})},
			want: Waits{For: ForQuiet, QuietUntil: at(8 * time.Hour), Scope: throttle.General, Rule: throttle.QuietRule, Reason: "quiet hours of the general limits", Since: accepted, Until: at(8 * time.Hour)}},
		"returned until not_before":  {n: later, job: returned(store.Deferred, time.Hour), want: Waits{For: ForSchedule, Since: accepted, Until: at(time.Hour)}},
		"another attempt":            {record: tried, job: returned(store.Retried, time.Minute), want: Waits{For: ForAttempt, Reason: "FCM answered 500", Since: at(-5 * time.Second), Until: at(time.Minute)}},
		"another attempt, trouble":   {record: tried, job: returned(store.Retried, time.Minute), pauses: troubled(push.FCM), want: trouble},
		"one paused, one in trouble": {job: returned(store.ProviderPaused, time.Minute), n: apnsAndFCM, pauses: append(troubled(push.FCM), operator(push.APNs, at(time.Hour))), want: trouble},
		"one in trouble and paused":  {job: returned(store.ProviderPaused, time.Minute), pauses: append(troubled(push.FCM), operator("", at(time.Second))), want: Waits{For: ForPause, Reason: "sale", Since: at(-time.Hour), Until: at(time.Second)}},
		"paused":                     {job: returned(store.ProviderPaused, time.Minute), pauses: []pause.Pause{operator(push.FCM, time.Time{}), operator("", at(time.Hour))}, want: Waits{For: ForPause, Reason: "sale", Since: at(-time.Hour)}},
		"refused by the provider":    {job: returned(store.ProviderPaused, time.Minute), pauses: []pause.Pause{refusal}, want: Waits{For: ForProvider, Platform: push.FCM, Reason: "quota", Until: at(time.Minute)}},
		"trouble":                    {job: returned(store.ProviderPaused, time.Minute), pauses: troubled(push.FCM), want: trouble},
		"unreported trouble":         {job: returned(store.ProviderPaused, time.Minute), want: Waits{For: ForProvider, Platform: push.FCM, Reason: "the provider is paused", Until: at(time.Minute)}},
		"busy":                       {job: returned(store.ProviderBusy, time.Second), want: Waits{For: ForProvider, Platform: push.FCM, Reason: "the provider is busy", Until: at(time.Second)}},
		"limits away":                {job: returned(store.LimiterAway, time.Second), workers: []control.Snapshot{away}, want: Waits{For: ForLimiter, Reason: "NOPERM", Since: at(-time.Minute), Until: at(time.Second)}},
		"one user's limits":          {job: returned(store.Unchecked, time.Second), want: Waits{For: ForTimeline, Reason: "the user's limits cannot be checked: WRONGTYPE", Since: at(-5 * time.Second), Until: at(time.Second)}},
		"nothing can be recorded":    {job: returned(store.RedisRefuses, time.Second), want: Waits{For: ForRedis, Reason: "Redis refuses to write", Since: at(-5 * time.Second), Until: at(time.Second)}},
		"too late":                   {job: returned(store.TooLate, time.Second), want: Waits{For: ForMachine, Reason: "the machine is too busy to send on time", Since: at(-5 * time.Second), Until: at(time.Second)}},
		"after a crash":              {job: returned(store.Crashed, time.Second), want: Waits{For: ForRecovery, Reason: "its worker died or stopped", Since: at(-5 * time.Second), Until: at(time.Second)}},
		"claimed":                    {job: active, want: Waits{For: InHand, Since: accepted}},
		"claimed until its slot":     {job: active, slot: slot(time.Second), want: Waits{For: ForLimit, Scope: throttle.General, Rule: "gap", Reason: "gap of the general limits", Since: accepted, Until: at(time.Second)}},
		"claimed at its slot":        {job: active, slot: slot(-time.Second), want: Waits{For: InHand, Since: accepted}},
		"claimed until not_before":   {record: &store.Record{Accepted: accepted, NotBefore: at(time.Second)}, job: active, want: Waits{For: ForSchedule, Since: accepted, Until: at(time.Second)}},
		"claimed by a dead worker":   {job: &store.Place{State: store.JobActive, Orphaned: true}, want: Waits{For: ForRecovery, Reason: "its worker is gone; another worker takes it over within seconds", Since: accepted}},
		"archived":                   {job: &store.Place{State: "archived", Back: accepted}, want: Waits{For: ForRecovery, Reason: "its job is archived", Since: accepted}},
	} {
		at := waitInput{now: now, record: c.record, job: c.job, n: c.n, slot: c.slot, liveState: liveState{c.workers, c.pauses}}
		if at.record == nil {
			at.record = &store.Record{Accepted: accepted}
		}
		if at.n == nil {
			at.n = fcm
		}
		if at.workers == nil {
			at.workers = []control.Snapshot{idle}
		}
		if got := at.waits(); *got != c.want {
			t.Errorf("%s: %+v\nwant %+v", name, *got, c.want)
		}
		if c.job == nil || at.missingWorker() != "" || c.job.State != store.JobPending && c.job.State != store.JobPutOff {
			continue
		}
		if got := at.causeOf(now, c.job.State, c.job.Last, at.n, at.record.Outcomes); got != c.want.For {
			t.Errorf("%s: it is listed as waiting for %s", name, got)
		}
	}
}

// Each Why has a cause and a text.
func TestEachWhyHasCauseAndText(t *testing.T) {
	t.Parallel()
	for _, why := range append(store.WaitReasons, "") {
		text := returnText(store.Return{Why: why, Key: "a key", Detail: "a detail"})
		if text == "" || strings.Contains(text, "KEY") || strings.Contains(text, "DETAIL") || !slices.Contains(Causes, returnReasons[why].cause) {
			t.Errorf("%q: %q, %q", why, text, returnReasons[why].cause)
		}
	}
	if n := len(store.WaitReasons) + 1; len(returnReasons) != n {
		t.Errorf("%d reasons have a text, want %d", len(returnReasons), n)
	}
	if text := returnText(store.Return{Why: store.OverQuota, Key: "DETAIL", Detail: "KEY"}); text != "over the quota DETAIL: KEY" {
		t.Error(text)
	}
}
