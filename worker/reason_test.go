package worker

import (
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/route"
)

// Each reason says why the job returns, and after how long.
func TestEachReasonSaysHowTheJobReturns(t *testing.T) {
	t.Parallel()
	const look = time.Minute
	quota := route.QuotaStatus{Key: "fcm/x", Rate: "10/1s"}
	unknown := route.QuotaStatus{Key: "fcm/x", Error: "away"}
	for name, c := range map[string]struct {
		skip  skip
		quota route.QuotaStatus
		woken bool
		want  store.Return
	}{
		"paused":           {skip{reason: pausedByOperator, pause: new(pause.Pause)}, route.QuotaStatus{}, true, store.Return{Why: store.ProviderPaused, After: look}},
		"closed":           {skip{reason: routeClosed}, route.QuotaStatus{}, true, store.Return{Why: store.ProviderPaused, After: look}},
		"not connected":    {skip{reason: notConnected}, route.QuotaStatus{}, true, store.Return{Why: store.ProviderPaused, After: look}},
		"no units":         {skip{reason: noUnits}, quota, false, store.Return{Why: store.OverQuota, Key: "fcm/x", Detail: "10/1s", After: look}},
		"unmetered":        {skip{reason: noUnits}, unknown, false, store.Return{Why: store.Unmetered, Key: "fcm/x", Detail: "away", After: look}},
		"device":           {skip{reason: overDevice, rule: "3/1h", left: 7 * time.Second}, route.QuotaStatus{}, false, store.Return{Why: store.OverDevice, Key: "3/1h", After: 7 * time.Second}},
		"device unmetered": {skip{reason: deviceUnmetered, cause: "away", left: store.Again}, route.QuotaStatus{}, false, store.Return{Why: store.DeviceUnmetered, Detail: "away", After: store.Again}},
		"left alone":       {skip{reason: leftAlone, cause: "down", left: time.Second}, route.QuotaStatus{}, false, store.Return{Why: store.LeftAlone, Detail: "down", After: time.Second}},
	} {
		if got := c.skip.back(look, c.quota); got != c.want || c.skip.woken() != c.woken {
			t.Errorf("%s: %+v, woken %t, want %+v", name, got, c.skip.woken(), c.want)
		}
	}
}

// Of several reasons one says when the job comes back.
func TestKeptBy(t *testing.T) {
	t.Parallel()
	paused, closed, units := skip{reason: pausedByOperator}, skip{reason: routeClosed}, skip{reason: noUnits}
	device := skip{reason: overDevice, left: time.Minute}
	sooner := skip{reason: deviceUnmetered, left: time.Second}
	for name, c := range map[string]struct {
		skips []skip
		want  skip
	}{
		"none":                           {[]skip{{}, {}}, skip{}},
		"one of two":                     {[]skip{{}, closed}, closed},
		"the first of two like it":       {[]skip{paused, closed}, paused},
		"units":                          {[]skip{closed, device, units, sooner}, units},
		"a device":                       {[]skip{closed, device}, device},
		"the device that is free sooner": {[]skip{device, sooner, paused}, sooner},
	} {
		var outcomes []outcome
		for _, s := range c.skips {
			outcomes = append(outcomes, outcome{skip: s})
		}
		if got := keptBy(outcomes); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// What waits for units keeps its slot, what something else keeps gives it back; neither
// is an attempt.
func TestUnsentCostsNothing(t *testing.T) {
	t.Parallel()
	for reason, want := range map[reason]release{
		noUnits: nothing, routeClosed: slotQuietly, pausedByOperator: slotQuietly, overDevice: slotQuietly, deviceUnmetered: slotQuietly,
	} {
		d := &delivery{outcomes: []outcome{{skip: skip{reason: reason}}}}
		to, _ := d.settle(budget{1, time.Hour}, time.Unix(1, 0), 0.5).(back)
		if to.release != want || d.tried || to.kept.reason != reason || d.attempts != 0 || !d.first.IsZero() {
			t.Errorf("%d: %+v after %d attempts", reason, to, d.attempts)
		}
	}
}

// What is left alone costs no attempt, and ends when it has been tried for as long as it may.
func TestLeftAloneCostsTime(t *testing.T) {
	t.Parallel()
	alone := outcome{skip: skip{reason: leftAlone, cause: "down", left: time.Minute}}
	delivered := outcome{Outcome: providers.Outcome{Kind: providers.Delivered}}
	now := time.Unix(10_000, 0)
	for name, c := range map[string]struct {
		outcomes []outcome
		first    time.Time
		state    push.State
	}{
		"at first":                 {[]outcome{alone}, time.Time{}, push.Waiting},
		"for long":                 {[]outcome{alone}, now.Add(-time.Hour), push.Waiting},
		"for too long":             {[]outcome{alone}, now.Add(-time.Hour - 1), push.Exhausted},
		"for too long, one is not": {[]outcome{alone, delivered}, now.Add(-time.Hour - 1), push.Delivered},
	} {
		d := &delivery{outcomes: c.outcomes, first: c.first}
		to := d.settle(budget{1, time.Hour}, now, 0.5)
		if stateOf(to) != c.state || d.tried || d.attempts != 0 || d.first.IsZero() {
			t.Errorf("%s: %+v after %d attempts, the first at %v", name, to, d.attempts, d.first)
		}
		if to, waits := to.(back); waits && to.kept != alone.skip {
			t.Errorf("%s: kept by %+v", name, to.kept)
		}
		if to, ends := to.(end); ends && to.state == push.Exhausted && (to.reason != string(providers.OriginBackoff) || to.problem != "down") {
			t.Errorf("%s: ended for %q, %q", name, to.reason, to.problem)
		}
	}
}
