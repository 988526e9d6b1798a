package worker

import (
	"errors"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

var (
	delivered = outcome{Outcome: providers.Outcome{Kind: providers.Delivered}}
	dead      = outcome{Outcome: providers.Outcome{Kind: providers.DeadToken}}
	ambiguous = outcome{Outcome: providers.Outcome{Kind: providers.Retry, Ambiguous: true}}
)

func TestOutcomesDecideResult(t *testing.T) {
	t.Parallel()
	retry := outcome{Outcome: providers.Outcome{Kind: providers.Retry, RetryAfter: 7 * time.Second}}
	rejected := outcome{Outcome: providers.Outcome{Kind: providers.Rejected, Reason: "r", Err: errors.New("why")}}
	misconfigured := outcome{Outcome: providers.Outcome{Kind: providers.Misconfigured}}
	blocked := outcome{skip: skip{reason: routeClosed}}
	blockedLater := outcome{Outcome: ambiguous.Outcome, skip: skip{reason: pausedByOperator}}
	const backoff = 2 * time.Second
	for name, c := range map[string]struct {
		outcomes []outcome
		attempts int
		since    time.Duration
		state    push.State
		delay    time.Duration
		used     bool
	}{
		"delivered":                      {[]outcome{delivered}, 1, 0, push.Delivered, 0, true},
		"one of two delivered":           {[]outcome{delivered, dead}, 1, 0, push.Delivered, 0, true},
		"all dead":                       {[]outcome{dead, dead}, 1, 0, push.Undeliverable, 0, false},
		"dead and rejected":              {[]outcome{dead, rejected}, 1, 0, push.Rejected, 0, false},
		"retry after":                    {[]outcome{retry}, 1, 0, push.Waiting, 7 * time.Second, false},
		"retry, backoff is longer":       {[]outcome{ambiguous}, 1, 0, push.Waiting, backoff, true},
		"delivered, the other retried":   {[]outcome{delivered, retry}, 1, 0, push.Waiting, 7 * time.Second, true},
		"attempts spent":                 {[]outcome{retry}, 3, 0, push.Exhausted, 0, false},
		"attempts spent, ambiguous":      {[]outcome{ambiguous}, 3, 0, push.Exhausted, 0, true},
		"attempts spent, delivered":      {[]outcome{delivered, retry}, 3, 0, push.Delivered, 0, true},
		"time spent":                     {[]outcome{retry}, 2, time.Hour + 1, push.Exhausted, 0, false},
		"misconfigured waits":            {[]outcome{misconfigured}, 100, time.Minute, push.Waiting, backoff, false},
		"blocked, the other delivered":   {[]outcome{blocked, delivered}, 1, 0, push.Waiting, 0, true},
		"blocked, the other spent":       {[]outcome{blocked, retry}, 3, 0, push.Waiting, 7 * time.Second, false},
		"blocked after an ambiguous one": {[]outcome{blockedLater, rejected}, 9, 0, push.Waiting, 0, true},
		"blocked too long":               {[]outcome{blocked, dead}, 1, time.Hour + 1, push.Exhausted, 0, false},
		"blocked too long, delivered":    {[]outcome{blocked, delivered}, 1, time.Hour + 1, push.Delivered, 0, true},
	} {
		got := decide(c.outcomes, c.attempts, c.since, budget{3, time.Hour}, backoff)
		again, _ := got.(requeue)
		if stateOf(got) != c.state || again.After != c.delay || (&delivery{outcomes: c.outcomes}).used() != c.used {
			t.Errorf("%s: %+v, want %s in %s, used %t", name, got, c.state, c.delay, c.used)
		}
	}
}

// stateOf returns the state after the result: the end's, or Waiting.
func stateOf(r result) push.State {
	if over, ended := r.(end); ended {
		return over.state
	}
	return push.Waiting
}

func TestEndEarlyKeepsEarlierDelivery(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		outcomes []outcome
		state    push.State
		used     bool
		dead     int
	}{
		"never sent":           {[]outcome{{}, {}}, push.Expired, false, 0},
		"one delivered":        {[]outcome{{}, delivered}, push.Delivered, true, 0},
		"one may be delivered": {[]outcome{ambiguous, dead}, push.Expired, true, 1},
		"one dead":             {[]outcome{{}, dead}, push.Expired, false, 1},
		"one delivered, dead":  {[]outcome{delivered, dead, {}}, push.Delivered, true, 1},
	} {
		d := &delivery{outcomes: c.outcomes}
		got := d.endEarly(push.Expired, "late")
		if got.state != c.state || d.used() != c.used || got.dead != c.dead {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A full line rejects only notifications that are new and not critical.
func TestReturnedNotificationMayExceedFullLine(t *testing.T) {
	t.Parallel()
	back := time.Now().Truncate(time.Second)
	returned := func(why store.WaitReason, notBefore time.Time) delivery {
		d := delivery{Notification: &push.Notification{NotBefore: notBefore}, returnedAt: back}
		d.hasWaited = d.waitedBefore(why)
		return d
	}
	for name, c := range map[string]struct {
		d    delivery
		want bool
	}{
		"new":                        {delivery{}, false},
		"new, its not_before is now": {returned(store.Deferred, back.Add(2*time.Second)), false},
		"put off by a limit":         {returned(store.Deferred, time.Time{}), true},
		"put off within the second of its not_before": {returned(store.Deferred, back.Add(time.Second-1)), true},
		"held by a pause or a route":                  {returned(store.ProviderPaused, time.Time{}), true},
		"held by an outage":                           {returned(store.LimiterAway, time.Time{}), true},
		"asks again in this visit":                    {delivery{asked: true}, true},
		"retry":                                       {delivery{attempts: 1}, true},
		"requeued":                                    {delivery{replay: true}, true},
		"successor":                                   {delivery{isSuccessor: true}, true},
		"bulk":                                        {delivery{Notification: &push.Notification{Priority: push.Bulk}}, false},
		"critical":                                    {delivery{Notification: &push.Notification{Priority: push.Critical}}, true},
	} {
		if c.d.Notification == nil {
			c.d.Notification = new(push.Notification)
		}
		if got := c.d.mayExceedLine(); got != c.want {
			t.Errorf("%s: kept %v", name, got)
		}
	}
}

func TestBackoffGrowsAndIsBounded(t *testing.T) {
	t.Parallel()
	for attempts := 1; attempts <= 100; attempts++ {
		mean := min(time.Second<<min(attempts-1, 30), 10*time.Minute)
		for jitter, want := range map[float64]time.Duration{0: mean / 2, 0.5: mean, 0.75: mean * 5 / 4} {
			if got := backoffAfter(attempts, jitter); got != want {
				t.Errorf("the wait after %d attempts is %s, want %s", attempts, got, want)
			}
		}
	}
}
