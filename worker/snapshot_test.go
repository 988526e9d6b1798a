package worker_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/route"
)

func (r *rig) snapshots() []control.Snapshot {
	r.t.Helper()
	all, err := control.ReadSnapshots(context.Background(), r.client, "")
	must(r.t, err)
	return all
}

// An awayLimiter reports an outage of its Redis.
type awayLimiter struct{ throttle.Planner }

func (awayLimiter) Stats() throttle.OutageStats {
	return throttle.OutageStats{Since: time.Unix(1_795_219_200, 0), Cause: errors.New("NOPERM")}
}

// Each worker publishes a snapshot, which is gone when the worker ends.
func TestEachWorkerPublishesSnapshot(t *testing.T) {
	client := oneRedis(t)
	r := newRig(t, client, unlimited)
	r.hasten(time.Hour, time.Hour)
	r.options.Limiter = awayLimiter{r.options.Limiter}
	r.options.Version, r.options.ClockOffset = "v1.2.3", func() time.Duration { return 3 * time.Second }
	if got := r.snapshots(); len(got) != 0 {
		t.Fatalf("snapshots without a worker: %+v", got)
	}
	before := time.Now().Add(-time.Second)
	first, second := r.start(), r.start()
	wait(t, func() bool { return len(r.snapshots()) == 2 })
	r.apns.RespondAlways(standin.Answer{Status: http.StatusServiceUnavailable})
	r.enqueueMany("down", 20, apple)
	var troubled route.Status
	wait(t, func() bool {
		for _, s := range r.snapshots() {
			if got := s.Routes[0]; got.State != route.Open {
				troubled = got
				if s.ID == "" || s.PID == 0 || s.Host == "" || s.Version != "v1.2.3" || s.Concurrency != 256 ||
					!s.Pulls || s.Limits.Since.Unix() != 1_795_219_200 || s.Limits.Cause != "NOPERM" || len(s.Routes) != 4 || s.RedisAheadBy != 3*time.Second || s.Started.Before(before) || s.At.Before(before) {
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
	var left string
	wait(t, func() bool { // on a stalled machine there may be none for a while
		got := r.snapshots()
		if len(got) > 0 {
			left = got[0].ID
		}
		return len(got) == 1
	})
	for _, key := range []string{"alive", left} {
		if ttl := client.PTTL(t.Context(), "pushpace:{workers}:"+key).Val(); ttl == -1 {
			t.Errorf("%s does not expire", key)
		}
	}
	second()
	if got := r.snapshots(); len(got) != 0 {
		t.Errorf("%d snapshots after all have ended", len(got))
	}
}

// done returns the sums of all workers since the given time, from Redis and the snapshots.
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

// A worker's counts outlive it, and are added to those of other workers.
func TestCountsOutliveWorker(t *testing.T) {
	r := newRig(t, oneRedis(t), unlimited)
	began := time.Now().UTC().Truncate(time.Minute)
	for i := range 2 {
		end := r.start()
		r.enqueueMany(fmt.Sprint("of-", i), 5, apple)
		r.settled(5 * (i + 1))
		wait(t, func() bool {
			of := func(way route.Status) bool { return way.Answers[providers.OK] == 5 && way.Latency.P99 > 0 }
			return slices.ContainsFunc(r.snapshots(), func(s control.Snapshot) bool { return slices.ContainsFunc(s.Routes, of) })
		})
		end()
		if got := r.done(began); len(r.snapshots()) != 0 || got.Sent != int64(5*(i+1)) || got.Ended[push.Delivered] != got.Sent {
			t.Errorf("after the end of worker %d: %+v", i, got)
		}
	}
}
