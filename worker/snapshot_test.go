package worker_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/route"
)

func (r *rig) snapshots() []control.Snapshot {
	r.t.Helper()
	all, err := control.ReadSnapshots(context.Background(), r.client, "")
	must(r.t, err)
	return all
}

// Each worker tells what only it knows, and is gone when it ends.
func TestSnapshots(t *testing.T) {
	client := oneRedis(t)
	r := newRig(t, client, unlimited)
	r.hasten(time.Hour, time.Hour)
	r.options.Version, r.options.ClockOffset = "v1.2.3", func() time.Duration { return 3 * time.Second }
	if got := r.snapshots(); len(got) != 0 {
		t.Fatalf("nobody is there, and is seen: %+v", got)
	}
	before := time.Now().Add(-time.Second)
	first, second := r.start(), r.start()
	wait(t, func() bool { return len(r.snapshots()) == 2 })
	r.apns.RespondAlways(standin.Answer{Status: http.StatusServiceUnavailable})
	r.enqueueMany("down", 20, apple)
	var troubled route.Status
	wait(t, func() bool {
		for _, s := range r.snapshots() {
			if got := s.Routes[0]; got.Breaker != route.BreakerClosed {
				troubled = got
				if s.ID == "" || s.PID == 0 || s.Host == "" || s.Version != "v1.2.3" || s.Concurrency != 256 ||
					!s.Pulls || len(s.Routes) != 3 || s.RedisAheadBy != 3*time.Second || s.Started.Before(before) || s.At.Before(before) {
					t.Errorf("%+v", s)
				}
				return true
			}
		}
		return false
	})
	trouble := troubled.Trouble
	if troubled.App != "shop" || troubled.Platform != push.APNs || trouble.Reason != "ServiceUnavailable" ||
		!strings.Contains(trouble.Error, "503") || strings.Contains(trouble.Error, appleToken) ||
		trouble.Failures < 3 || trouble.Answers < trouble.Failures || trouble.Since.Before(before) || time.Until(trouble.Next) < time.Minute {
		t.Errorf("%+v", troubled)
	}
	first()
	if got := r.snapshots(); len(got) != 1 {
		t.Errorf("%d are seen after one has ended", len(got))
	}
	for _, key := range []string{"alive", r.snapshots()[0].ID} {
		if ttl := client.PTTL(t.Context(), "pushpace:{workers}:"+key).Val(); ttl <= 0 {
			t.Errorf("%s lives for %s", key, ttl)
		}
	}
	second()
	if got := r.snapshots(); len(got) != 0 {
		t.Errorf("%d are seen after all have ended", len(got))
	}
}

// awayLimiter stands for a limiter whose store is away.
type awayLimiter struct{ throttle.Planner }

func (awayLimiter) Stats() throttle.OutageStats {
	return throttle.OutageStats{Since: time.Unix(1_795_219_200, 0), Cause: errors.New("NOPERM")}
}

func TestASnapshotTellsThatTheLimitsAreAway(t *testing.T) {
	r := newRig(t, oneRedis(t), unlimited)
	r.options.Limiter = awayLimiter{r.options.Limiter}
	r.start()
	wait(t, func() bool { return len(r.snapshots()) == 1 })
	if got := r.snapshots()[0].Limits; got.Since.Unix() != 1_795_219_200 || got.Cause != "NOPERM" {
		t.Errorf("%+v", got)
	}
}

// The workers' snapshots are read once, by all that tell what waits.
func TestSnapshotsAreReadOnce(t *testing.T) {
	t.Parallel()
	client := realRedis(t)
	r := newRig(t, client, unlimited)
	r.enqueue(to("due"))
	snapshots := &limitsCommands{key: "{workers}:alive"}
	redistest.Hook(client, snapshots)
	operator := control.New(client, r.records, nil, unlimited)
	for name, read := range map[string]func() error{
		"status": func() error { _, err := operator.Status(t.Context(), push.Ref{ID: "due"}); return err },
		"queued": func() error { _, err := operator.Queued(t.Context(), control.Selection{}, ""); return err },
		"waits":  func() error { _, err := operator.Waits(t.Context()); return err },
		"pauses": func() error { _, err := operator.Pauses(t.Context()); return err },
	} {
		must(t, read()) // from here on the server knows the scripts
		before := snapshots.limits.Load()
		must(t, read())
		if got := snapshots.limits.Load() - before; got != 1 {
			t.Errorf("%s reads them %d times", name, got)
		}
	}
}

// A snapshot tells what the worker did lately: by the minute, by the provider's answers,
// how long they took, and what is known of quotas.
func TestASnapshotTellsWhatWasDoneLately(t *testing.T) {
	t.Parallel()
	r := newRig(t, realRedis(t), limits.New(throttle.Policy{MinGap: time.Hour}, nil))
	r.meterFCM(throttle.Rate{Count: 1000, Period: time.Second}, 100)
	const took = 20 * time.Millisecond
	r.apns.RespondAlways(standin.Answer{Delay: took})
	r.apns.Respond(deadToken, standin.Answer{Status: http.StatusGone, Reason: "Unregistered"})
	began := time.Now().UTC().Truncate(time.Minute)
	r.start()
	r.enqueue(to("first", apple))
	r.settled(1)
	r.enqueue(to("put-off", apple))
	gone := to("gone", push.Target{Platform: push.APNs, Token: deadToken})
	gone.User = "bob"
	r.enqueue(gone)
	var done control.Minute
	wait(t, func() bool {
		done = r.done(began)
		return done.Sent == 2 && done.Deferred == 1 && done.Ended[push.Delivered] == 1 && done.Ended[push.Undeliverable] == 1
	})
	all := r.snapshots()
	if len(all) != 1 {
		t.Fatalf("%+v", all)
	}
	s := all[0]
	for _, way := range s.Routes {
		if way.App == "shop" && way.Platform == push.APNs {
			if way.Answers[providers.OK] != 1 || way.Answers["Unregistered"] != 1 || len(way.Answers) != 2 || way.Latency.P99 < took*7/8 || way.Latency.P50 > way.Latency.P99 {
				t.Errorf("%+v", way)
			}
		} else if way.Latency != (route.Latency{}) || way.Answers != nil {
			t.Errorf("nothing was sent, and %+v", way)
		}
	}
	if len(s.Quotas) != 1 || s.Quotas[0].Key != "fcm/demo" || s.Quotas[0].Rate == "" {
		t.Errorf("%+v", s.Quotas)
	}
}

// done is what workers did since then, by what is in Redis and in their snapshots.
func (r *rig) done(since time.Time) (sum control.Minute) {
	r.t.Helper()
	minutes, err := control.ReadMinutes(r.t.Context(), r.client, "", since, time.Now())
	must(r.t, err)
	for _, s := range r.snapshots() {
		minutes = append(minutes, s.Minutes...)
	}
	for i := range minutes {
		if at := minutes[i].At; at.Before(since) || !at.Equal(at.Truncate(time.Minute)) {
			r.t.Errorf("%+v", minutes[i])
		}
		sum.Add(&minutes[i])
	}
	return sum
}

// What a worker did is known after its end, and adds up with what others did.
func TestWhatWorkersDidOutlivesThem(t *testing.T) {
	r := newRig(t, oneRedis(t), unlimited)
	began := time.Now().UTC().Truncate(time.Minute)
	for i := range 2 {
		end := r.start()
		r.enqueueMany(fmt.Sprint("of-", i), 5, apple)
		r.settled(5 * (i + 1))
		end()
		if got := r.done(began); len(r.snapshots()) != 0 || got.Sent != int64(5*(i+1)) || got.Ended[push.Delivered] != got.Sent {
			t.Errorf("after the end of worker %d: %+v", i, got)
		}
	}
}
