package app

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/telemetry/metrics"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/webhook"
)

// readBacklog reads the content of Redis. It returns an error if it cannot read the sums or the
// queues. A shard that does not answer is no error: Unread names it, and the sums and queues leave it
// out. It leaves out other parts that it cannot read, and logs them once.
func (s *System) readBacklog(ctx context.Context) (b metrics.Backlog, err error) {
	var uncounted, unlisted []int
	var counts map[int]store.Counts
	var unseen error // why the servers are not known
	var reads errgroup.Group
	reads.Go(func() (err error) {
		counts, err = s.Records.CountsOfEach(ctx)
		b.Counts = store.Sum(counts)
		uncounted, err = store.Unreachable(err)
		return err
	})
	if _, several := pipeline.OfCluster(s.Queue); several {
		reads.Go(func() error {
			b.Nodes, unseen = redisconn.ReadNodes(ctx, s.Queue)
			return nil
		})
	}
	reads.Go(func() error {
		jobs, err := store.ReadJobs(ctx, s.Queue, s.Records)
		b.Jobs = store.SumJobs(jobs)
		unlisted, err = store.Unreachable(err)
		return err
	})
	if err := reads.Wait(); err != nil {
		return b, err
	}
	b.Unread = slices.Compact(slices.Sorted(slices.Values(slices.Concat(uncounted, unlisted))))
	if err := operate.AddShards(ctx, s.Queue, s.Records, b.Nodes, counts, nil); unseen == nil {
		unseen = err
	}
	s.unread.note(s.redisLog, "the Cluster's masters", unseen)
	s.readRest(ctx, &b)
	return b, nil
}

// readRest reads the optional parts of a backlog.
func (s *System) readRest(ctx context.Context, b *metrics.Backlog) {
	var reads sync.WaitGroup
	reads.Go(func() { b.Webhooks = s.readWebhooks(ctx) })
	reads.Go(func() {
		snapshots, err := control.ReadSnapshots(ctx, s.Queue, s.Records.Prefix())
		if b.Workers = len(snapshots); err != nil {
			b.Workers = -1
		}
		s.unread.note(s.redisLog, "the workers' snapshots", err)
	})
	reads.Go(func() {
		var err error
		b.Waits, err = s.waits.read(ctx, inspect.New(s.Queue, s.Records, s.limiter, s.limits))
		_, err = store.Unreachable(err) // Unread names the unreachable shards
		s.unread.note(s.redisLog, "what notifications wait for", err)
	})
	reads.Wait()
}

// readWebhooks reads since when each webhook has refused its deliveries.
func (s *System) readWebhooks(ctx context.Context) map[string]map[webhook.Kind]time.Time {
	var (
		reads sync.WaitGroup
		mu    sync.Mutex
		all   = map[string]map[webhook.Kind]time.Time{}
		wrong error
	)
	for app, settings := range s.config.Apps {
		for kind, hook := range map[webhook.Kind]*config.Webhook{webhook.DeadTokens: deadTokenHook(settings), webhook.Outcomes: outcomeHook(settings)} {
			if hook == nil {
				continue
			}
			reads.Go(func() {
				at, err := webhook.Oldest(ctx, s.Records, kind, app)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil:
					wrong = err
				case all[app] == nil:
					all[app] = map[webhook.Kind]time.Time{kind: at}
				default:
					all[app][kind] = at
				}
			})
		}
	}
	reads.Wait()
	s.unread.note(s.redisLog, "what webhooks have not taken", wrong)
	return all
}

// unread holds the unreadable parts of the backlog. The zero value has none.
type unread struct {
	mu    sync.Mutex
	parts map[string]bool
}

// note logs when a part becomes unreadable, and when it is readable again.
func (u *unread) note(log *slog.Logger, part string, err error) {
	if errors.Is(err, context.Canceled) {
		return // the process ends
	}
	u.mu.Lock()
	before := u.parts[part]
	if u.parts == nil {
		u.parts = make(map[string]bool)
	}
	u.parts[part] = err != nil
	u.mu.Unlock()
	switch {
	case err != nil && !before:
		log.Warn("the metrics are without "+part+", which cannot be read", "error", err)
	case err == nil && before:
		log.Info("the metrics include " + part + " again")
	}
}

// waitsFresh is the age up to which the waits by cause are reused: to count them, each process
// with metrics reads jobs.
const waitsFresh = 30 * time.Second

// drawn caches the waits by cause. Only one goroutine at a time may call its read method.
type drawn struct {
	shares []inspect.Share
	at     time.Time
}

func (d *drawn) read(ctx context.Context, c *inspect.Inspector) ([]inspect.Share, error) {
	if time.Since(d.at) < waitsFresh {
		return d.shares, nil
	}
	shares, err := c.Waits(ctx)
	if err == nil {
		d.shares, d.at = shares, time.Now()
	}
	return shares, err
}
