//go:build unix

package loadtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/pushpace/pushpace/internal/redisconn"
)

// patience is the time without an arrival after which the run ends: a killed worker's notifications
// are back within 15 s, and the machine may be busy.
const patience = 90 * time.Second

// work starts a worker, enqueues the plan, waits until it has ended and judges the log.
func (r *run) work(ctx context.Context) (*Report, error) {
	before, version, err := r.redisUsage(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.workers.start(); err != nil {
		return nil, err
	}
	feeding, cancel := context.WithCancel(ctx)
	replaced, fed := make(chan struct{}), make(chan error, 1)
	f := &feeder{log: r.log, enqueue: r.producer.EnqueueAll, replaced: replaced}
	go func() { fed <- f.feed(feeding); close(fed) }()
	err = r.follow(ctx, replaced, fed)
	cancel()
	for range fed { // until the feeder has ended
	}
	r.show.end()
	if err != nil {
		return nil, err
	}
	took := time.Since(r.start)
	after, _, err := r.redisUsage(ctx)
	if err == nil {
		err = r.workers.stop()
	}
	if err != nil {
		return nil, err
	}
	r.show.line("judging")
	several := r.several()
	users := make([]string, 0, len(several))
	for user := range several {
		users = append(users, userName(user))
	}
	admitted, err := r.system.Admissions(ctx, appName, users)
	if err != nil {
		return nil, redisconn.Explain(err, r.config.Redis)
	}
	v := r.judge(admitted, several, f.paced)
	core := (after - before + r.workers.used.CPU).Seconds()
	return &Report{
		DeliveriesPerS: rounded(f.rate), PerCore: rounded(float64(r.delivered.Load()) / core),
		LatenessMS: Lateness{milliseconds(v.within(0.5)), milliseconds(v.within(0.99))},
		Violations: v.violations, Lost: v.lost, Twice: v.twice, RSSMB: rounded(float64(r.workers.used.RSS) / (1 << 20)),
		Users: r.users, Notifications: r.notifications, PutOff: v.putOff, Seconds: rounded(took.Seconds()),
		Machine: Machine{runtime.GOMAXPROCS(0), runtime.Version(), version}, Faults: v.faults,
	}, nil
}

// follow replaces the worker half-way, and then closes replaced. It returns when all notifications
// have ended, or nothing has arrived for the time patience. It receives one error from fed.
func (r *run) follow(ctx context.Context, replaced chan<- struct{}, fed <-chan error) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	half := r.half
	all, delivered, since := false, int64(0), time.Now()
	for {
		select {
		case err := <-fed:
			if err != nil {
				return redisconn.Explain(err, r.config.Redis)
			}
			all, fed = true, nil
		case <-half:
			half = nil
			r.workers.kill()
			r.show.line("half of the notifications have arrived: the worker is killed, and another one starts")
			if err := r.workers.start(); err != nil {
				return err
			}
			close(replaced)
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := r.workers.failed(); err != nil {
			return err
		}
		r.show.update(r.delivered.Load(), r.deliveryRate())
		if now := r.delivered.Load(); now != delivered {
			delivered, since = now, time.Now()
		}
		switch stuck := time.Since(since) > patience; {
		case stuck && !all:
			return errors.New("nothing has arrived for " + patience.String() + r.workers.lastLog())
		case stuck:
			r.show.line("nothing has arrived for %s: the notifications that wait count as lost", patience)
			return nil
		case all && delivered == int64(r.notifications):
			counts, err := r.system.Records.Counts(ctx)
			if err != nil {
				return redisconn.Explain(err, r.config.Redis)
			}
			if counts.Waiting() == 0 {
				return nil
			}
		}
	}
}

// redisUsage returns the CPU time that Redis has used, and its version.
func (r *run) redisUsage(ctx context.Context) (cpu time.Duration, version string, err error) {
	info, err := r.system.Queue.InfoMap(ctx).Result()
	if err != nil {
		return 0, "", redisconn.Explain(err, r.config.Redis)
	}
	for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
		seconds, err := strconv.ParseFloat(info["CPU"][name], 64)
		if err != nil {
			return 0, "", fmt.Errorf("INFO: %s: %w", name, err)
		}
		cpu += time.Duration(seconds * float64(time.Second))
	}
	return cpu, info["Server"]["redis_version"], nil
}
