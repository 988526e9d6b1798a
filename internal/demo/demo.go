// Package demo shows how limits delay notifications: Run runs a worker against stand-ins of the
// providers and returns the faults that it found.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
	"github.com/schollz/progressbar/v3"

	"github.com/pushpace/pushpace"
	"github.com/pushpace/pushpace/internal/app"
	"github.com/pushpace/pushpace/internal/cli/progress"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/redisconn/scratch"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

// demoLimit is the longest run of the demo, even if notifications still wait: thirty times the
// usual time, for a busy machine.
const demoLimit = 5 * time.Minute

// Run runs the demo on the Redis at address, or on the embedded Redis for "". It prints the
// summary, as text or JSON. faults describes the violations and losses, one in each string.
func Run(ctx context.Context, address string, asJSON bool, out io.Writer) (faults []string, err error) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	start := time.Now()
	cfg, err := demoConfig(address, os.Environ())
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	redisconn.LogTo(slog.New(slog.DiscardHandler))
	clean := func() error { return nil }
	if address != "" {
		database, err := scratch.Claim(ctx, demoApp, &cfg.Redis)
		if err != nil {
			return nil, err
		}
		clean = database.Clean
	}
	d := &demo{mix: demoMix(), ledger: standin.NewLedger(nil), cfg: cfg}
	d.System, err = app.Open(ctx, cfg, d.ledger, log)
	if err != nil {
		return nil, errors.Join(err, clean())
	}
	d.begin(asJSON)
	err = d.run(ctx, log)
	if d.bar != nil {
		_ = d.bar.Clear()
	}
	var s *summary
	if err == nil {
		s, err = d.summarize(start)
	}
	err = errors.Join(err, d.Close())
	err = errors.Join(err, clean()) // last, when nothing of the demo writes any more
	if err != nil {
		return nil, err
	}
	if asJSON {
		err = json.NewEncoder(out).Encode(s)
	} else {
		err = s.print(out)
	}
	return s.faults, err
}

// demoConfig returns the shipped configuration. If address is not "", the configuration uses the Redis
// at that address and the Redis settings from environ, except address, database and prefix. It uses
// nothing else from environ.
func demoConfig(address string, environ []string) (*config.Config, error) {
	var settings []string
	if address != "" {
		var err error
		if settings, err = scratch.Settings(demoApp, address, environ); err != nil {
			return nil, app.Misused(err)
		}
	}
	cfg, err := config.Parse("the built-in config.yaml", pushpace.ConfigYAML, settings)
	return cfg, app.Misused(err)
}

// A demo is the state of one run.
type demo struct {
	*app.System
	cfg    *config.Config
	mix    []planned
	ledger *standin.Ledger // of all stand-ins
	late   lateness
	taken  int // notifications that the Producer has accepted

	stood atomic.Int64 // ns, the longest time for which this process got no processor

	progress io.Writer
	started  time.Time
	lines    int                      // of progress, printed so far
	bar      *progressbar.ProgressBar // nil where there is no terminal
	shown    int                      // entries of the ledger that were printed
}

// run enqueues the mix and waits until all of it has ended.
func (d *demo) run(ctx context.Context, log *slog.Logger) error {
	d.Observer = &d.late
	w, err := d.NewWorker(d.cfg, log)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, demoLimit)
	defer cancel()
	if err := d.warmUp(ctx); err != nil {
		return err
	}
	if err := w.Start(ctx); err != nil {
		return err
	}
	d.started = time.Now()
	go d.watch(ctx)
	enqueued := make(chan error, 1)
	go func() { enqueued <- d.enqueue(ctx) }()
	err = d.follow(ctx, enqueued)
	stop, cancelStop := context.WithTimeout(context.Background(), d.cfg.Worker.ShutdownTimeout)
	defer cancelStop()
	return errors.Join(err, w.Stop(stop))
}

// warmUp opens the connections by pushes to dead tokens. Without open connections, the first
// notifications would arrive late, and the next too soon after them.
func (d *demo) warmUp(ctx context.Context) error {
	for platform, sender := range d.Senders[demoApp] {
		target := push.Target{Platform: platform, Token: "deaddead"}
		if platform == push.PlatformWebPush {
			target = laptop("deaddead")
		}
		n := &push.Notification{ID: "warm-up", App: demoApp, User: "nobody", Targets: []push.Target{target}, Title: "-"}
		if o := sender.Send(ctx, n, target, providers.Departure{}); o.Kind != providers.DeadToken {
			return fmt.Errorf("the stand-in for %s answers %s to a dead token: %w", platform, o.Kind, o.Err)
		}
	}
	return nil
}

// watch measures how much longer than requested this process sleeps.
func (d *demo) watch(ctx context.Context) {
	const nap = 10 * time.Millisecond
	for ctx.Err() == nil {
		began := time.Now()
		time.Sleep(nap)
		d.stood.Store(max(d.stood.Load(), int64(time.Since(began)-nap)))
	}
}

// enqueue enqueues the mix, each notification at its time. Half-way it enqueues a notification
// twice, like a producer that got no answer, and an unreadable task through a plain asynq client.
func (d *demo) enqueue(ctx context.Context) error {
	producer := push.NewProducer(d.Queue, d.cfg.Redis.Prefix, d.cfg.Worker.IDRetention).WithShards(d.cfg.Redis.Shards)
	for i := range d.mix {
		select {
		case <-time.After(time.Until(d.started.Add(d.mix[i].at))):
		case <-ctx.Done():
			return ctx.Err()
		}
		times := 1
		if i == len(d.mix)/2 {
			times = 2
			task := asynq.NewTask(store.TaskType, []byte(`{"id":"cut-off","app":"sh`))
			if _, err := asynq.NewClientFromRedisClient(d.Queue).EnqueueContext(ctx, task, asynq.Queue(push.Default.Queue())); err != nil {
				return err
			}
		}
		for range times {
			receipt, err := producer.Enqueue(ctx, &d.mix[i].n)
			if err != nil {
				return err
			}
			if !receipt.Known {
				d.taken++
			}
		}
	}
	return nil
}

// follow shows the progress until all notifications have ended. It also returns nil at ctx's
// deadline: the summary counts the notifications that still wait.
func (d *demo) follow(ctx context.Context, enqueued <-chan error) (err error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for all := false; err == nil; {
		select {
		case err = <-enqueued:
			all, enqueued = true, nil
		case <-tick.C:
		case <-ctx.Done():
			err = ctx.Err()
		}
		var counts store.Counts
		if err == nil {
			counts, err = d.Records.Counts(ctx)
		}
		if err != nil {
			break
		}
		if d.show(counts); all && counts.Waiting() == 0 && counts.Malformed > 0 {
			return nil
		}
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil
	case ctx.Err() != nil:
		return errors.New("interrupted")
	}
	return fmt.Errorf("the demo fails: %w", err)
}

// begin prints the limits and the plan, and draws a bar on a terminal.
func (d *demo) begin(silent bool) {
	d.progress = os.Stderr
	if silent {
		d.progress = io.Discard
		return
	}
	if d.cfg.Redis.Address.Mode == config.Embedded {
		fmt.Fprintln(d.progress, "The embedded Redis keeps nothing: what the demo does is gone when it ends.")
	}
	fmt.Fprintf(d.progress, "Limits of each of the %d users: %s. Of marketing: %s. Codes are exempt.\nA chat sends %s 10 messages at once.\n",
		len(demoUsers), d.cfg.Limits.Default, d.cfg.Limits.Categories["marketing"].Policy, noisyUser)
	if progress.OnTerminal(os.Stderr) {
		d.bar = progress.New(d.progress, int64(len(d.mix)), progress.WithoutTimes)
	}
}

// show prints the new pushes to the noisy user. It shows the counts of all users in the bar, or
// without a terminal in one line a second.
func (d *demo) show(c store.Counts) {
	entries := d.ledger.Entries()
	for _, e := range entries[d.shown:] {
		i := slices.IndexFunc(d.mix, func(p planned) bool { return p.n.ID == e.Notification })
		if i < 0 || d.mix[i].n.User != noisyUser {
			continue
		}
		if d.bar != nil {
			_ = d.bar.Clear()
		}
		fmt.Fprintf(d.progress, "%7.3fs  %s gets: %s\n", e.At.Sub(d.started).Seconds(), noisyUser, d.mix[i].n.Title)
	}
	d.shown = len(entries)
	counters := fmt.Sprintf("delivered %d  deferred %d  waiting %d", c.Ended[push.Delivered], c.Deferred, c.Waiting())
	if d.bar != nil {
		d.bar.Describe(counters)
		_ = d.bar.Set64(c.Accepted - c.Waiting())
	} else if since := time.Since(d.started); int(since.Seconds()) > d.lines {
		d.lines++
		fmt.Fprintf(d.progress, "%7.0fs  %s  of %d\n", since.Seconds(), counters, len(d.mix))
	}
}
