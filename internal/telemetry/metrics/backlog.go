package metrics

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/worker/webhook"
)

// A Backlog is the content of Redis, which all processes share.
type Backlog struct {
	Counts store.Counts
	Jobs   store.Jobs
	// Unread are the shards that did not answer. The other fields exclude them.
	Unread []int
	// Nodes are the servers of the queue's Redis; a Cluster's nodes have Shards.
	Nodes []redisconn.Node
	// Webhooks has the instant of the oldest report that a webhook has not acknowledged, by app and
	// kind; zero for none. An unknown instant has no entry.
	Webhooks map[string]map[webhook.Kind]time.Time
	// Workers is the number of live workers, negative if unknown; Waits counts the waiting
	// notifications by cause.
	Workers int
	Waits   []inspect.Share
}

// ReadBacklog reads a Backlog. It returns soon after ctx ends.
type ReadBacklog func(ctx context.Context) (Backlog, error)

const (
	// backlogFresh is how long a reading is reused, so that many scrapes cost Redis little.
	backlogFresh = 5 * time.Second
	// backlogWait bounds a scrape's wait for a reading. backlogTimeout bounds the reading, which a
	// later scrape can use.
	backlogWait    = 500 * time.Millisecond
	backlogTimeout = 5 * time.Second
	// backlogStale is how long a reading is used while Redis does not answer.
	backlogStale = 30 * time.Second
)

// backlog collects the content of Redis. It reads in the background: scrapes neither load Redis
// nor hang with it.
type backlog struct {
	read   ReadBacklog
	status func() redisconn.Status // nil for none
	life   context.Context
	end    context.CancelFunc
	reader sync.WaitGroup

	mu      sync.Mutex
	last    Backlog
	at      time.Time     // when last was read
	asked   time.Time     // when the last read began
	reading chan struct{} // closed when the read under way is done; nil for none
	failed  bool          // whether the last finished read failed
}

func newBacklog(read ReadBacklog, status func() redisconn.Status) *backlog {
	b := &backlog{read: read, status: status}
	b.life, b.end = context.WithCancel(context.Background())
	return b
}

func (b *backlog) close() {
	b.mu.Lock()
	b.end()
	b.mu.Unlock()
	b.reader.Wait()
}

var (
	redisUp    = prometheus.NewDesc("pushpace_redis_up", "1 while the queue's Redis, or every master of a Cluster, answers in time and accepts writes.", nil, nil)
	notDone    = prometheus.NewDesc("pushpace_waiting", "Accepted notifications that have not ended, in all processes together.", nil, nil)
	booked     = prometheus.NewDesc("pushpace_bookings", "Waiting notifications that a limit has delayed.", nil, nil)
	letters    = prometheus.NewDesc("pushpace_dead_letters", "Stored dead letters.", nil, nil)
	dropped    = prometheus.NewDesc("pushpace_dropped_total", "Dead letters, and reports not yet accepted by an app's webhook, deleted because the app had too many.", []string{"app", "what"}, nil)
	oldest     = prometheus.NewDesc("pushpace_webhook_oldest_seconds", "Age of the oldest report that an app's webhook has not accepted. 0 for none.", []string{"app", "webhook"}, nil)
	jobs       = prometheus.NewDesc("pushpace_jobs", "Jobs on the queues. The state is pending, active, scheduled (until not_before), put_off (until a slot, a retry or capacity) or archived (only asynq archives jobs).", []string{"queue", "state"}, nil)
	alive      = prometheus.NewDesc("pushpace_workers", "Live workers. A process that runs only the API reports their number too.", nil, nil)
	unread     = prometheus.NewDesc("pushpace_unread_shards", "Shards that did not answer. The counts of notifications, dead letters and jobs exclude them.", nil, nil)
	nodeUp     = prometheus.NewDesc("pushpace_redis_node_up", "1 while this master of a Cluster answers in time.", []string{"node"}, nil)
	nodeWaits  = prometheus.NewDesc("pushpace_redis_node_waiting", "Notifications that wait in the shards of this master. While the master does not answer, their last known number.", []string{"node"}, nil)
	nodeCopies = prometheus.NewDesc("pushpace_redis_node_replicas", "Replicas that follow this master, and have all of its keys.", []string{"node"}, nil)
	waitsSince = prometheus.NewDesc("pushpace_oldest_waiting_seconds", "Age of the oldest waiting notification, by cause (reasons.md). If more than 5,000 wait, the oldest of a sample.", []string{"for"}, nil)
)

// Describe implements prometheus.Collector.
func (b *backlog) Describe(all chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{redisUp, notDone, booked, letters, dropped, oldest, jobs, alive, unread, nodeUp, nodeWaits, nodeCopies, waitsSince} {
		all <- d
	}
}

// Collect implements prometheus.Collector.
func (b *backlog) Collect(samples chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		samples <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	last, known, up := b.get()
	if b.status != nil {
		up = up && b.status().Trouble == redisreply.None
	}
	up = up && len(last.Unread) == 0
	gauge(redisUp, oneIf(up))
	if !known {
		return
	}
	gauge(unread, float64(len(last.Unread)))
	gauge(notDone, float64(last.Counts.Waiting()))
	gauge(booked, float64(max(0, last.Counts.Booked)))
	gauge(letters, float64(last.Counts.Letters))
	sums := map[store.Dropped]int64{} // an app may be named "other"
	for d, n := range last.Counts.Dropped {
		sums[store.Dropped{Kind: d.Kind, App: cmp.Or(d.App, Other)}] += n
	}
	for d, n := range sums {
		samples <- prometheus.MustNewConstMetric(dropped, prometheus.CounterValue, float64(n), d.App, d.Kind)
	}
	for app, kinds := range last.Webhooks {
		for kind, at := range kinds {
			age := 0.0
			if !at.IsZero() {
				age = max(0, time.Since(at).Seconds())
			}
			gauge(oldest, age, app, string(kind))
		}
	}
	if last.Workers >= 0 {
		gauge(alive, float64(last.Workers))
	}
	for _, share := range last.Waits {
		if !share.Oldest.IsZero() {
			gauge(waitsSince, max(0, time.Since(share.Oldest).Seconds()), string(share.For))
		}
	}
	for _, n := range last.Nodes {
		if n.Shards == nil { // no master of a Cluster
			continue
		}
		gauge(nodeUp, oneIf(n.Error == ""), n.Address)
		if n.Waiting != nil {
			gauge(nodeWaits, float64(*n.Waiting), n.Address)
		}
		if n.Replicas != nil {
			gauge(nodeCopies, float64(*n.Replicas), n.Address)
		}
	}
	for queue, states := range last.Jobs {
		for state, n := range states {
			gauge(jobs, float64(n), queue, string(state))
		}
	}
}

// get returns the last read, whether it is recent enough, and whether Redis answers.
func (b *backlog) get() (last Backlog, known, up bool) {
	if reading := b.refresh(); reading != nil {
		timer := time.NewTimer(backlogWait)
		defer timer.Stop()
		select {
		case <-reading:
		case <-timer.C:
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last, !b.at.IsZero() && time.Since(b.at) < backlogStale, !b.failed && b.reading == nil
}

// refresh starts a read if the last read is old enough. It returns a channel that is closed when
// the read under way ends; nil for none.
func (b *backlog) refresh() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reading != nil || time.Since(b.asked) < backlogFresh || b.life.Err() != nil {
		return b.reading
	}
	reading := make(chan struct{})
	b.reading, b.asked = reading, time.Now()
	b.reader.Go(func() {
		ctx, cancel := context.WithTimeout(b.life, backlogTimeout)
		defer cancel()
		last, err := b.read(ctx)
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.failed = err != nil; err == nil {
			b.last, b.at = last, time.Now()
		}
		b.reading = nil
		close(reading)
	})
	return reading
}
