// Package metrics counts the work of a worker and the API for Prometheus. Begin with Metrics.
// Labels come from closed sets and from the configuration, never from a user, a token or a
// notification.
package metrics

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker"
	"github.com/pushpace/pushpace/worker/webhook"
)

// Sources are read at each scrape. A nil source has no samples.
type Sources struct {
	// ClockOffset returns how far Redis's clock is ahead of this machine's.
	ClockOffset func() time.Duration
	// Outages returns the counts of the limiter's outages.
	Outages func() throttle.OutageStats
	// Senders by app and platform. All other apps have the label Other.
	Senders map[string]map[push.Platform]providers.Sender
	// Worker returns the worker; nil before it exists.
	Worker func() *worker.Worker
	// Backlog reads the content of Redis.
	Backlog ReadBacklog
	// Redis has a func for each Redis, by configuration key: QueueRedis, and limits.redis if it
	// is separate. The func returns the trouble of that Redis.
	Redis map[string]func() redisconn.Status
	// Reload returns whether the last reload of the configuration succeeded, and when a
	// configuration was last loaded, the start included.
	Reload func() (ok bool, at time.Time)
}

// QueueRedis is the key of the queue's Redis in Sources.Redis.
const QueueRedis = "redis"

// Metrics is a worker.Observer with its own registry. Close it.
type Metrics struct {
	registry   *prometheus.Registry
	apps       map[string]bool
	categories atomic.Pointer[map[string]bool]
	backlog    *backlog

	queueAge  prometheus.Histogram
	acquire   prometheus.Histogram
	deferrals *prometheus.CounterVec
	lateness  prometheus.Histogram
	attempts  *prometheus.CounterVec
	provider  *prometheus.HistogramVec
	ended     *prometheus.CounterVec
	unknown   prometheus.Counter
	noZone    prometheus.Counter
	closings  *prometheus.CounterVec
	posted    *prometheus.CounterVec
	requests  *prometheus.CounterVec
	answers   *prometheus.HistogramVec
}

// Other is the label of an app or category outside the configuration, and of a request without a
// route.
const Other = "other"

// seconds are the buckets of durations that are milliseconds as a rule.
var seconds = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// ages are the buckets of durations that are hours if there are too few workers.
var ages = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600}

// New returns metrics at zero.
func New(s Sources) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		apps:     make(map[string]bool, len(s.Senders)),
		queueAge: histogram("pushpace_queue_age_seconds",
			"The time from a notification's acceptance, or its not_before, to its first handling. If it grows, add workers.", ages),
		acquire: histogram("pushpace_acquire_seconds", "How long the limiter takes to answer.", seconds),
		deferrals: counters("pushpace_deferrals_total",
			"Times that a limit deferred a notification. The scope is general or category, the rule gap, rate or quiet_hours.", "app", "category", "scope", "rule"),
		lateness: histogram("pushpace_lateness_seconds", "The time from a notification's slot until it is sent, if only a limit held it.", seconds[1:]),
		attempts: counters("pushpace_attempts_total", "Attempts to send to one target, by the provider's answer.", "app", "platform", "kind", "reason"),
		provider: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pushpace_provider_seconds", Help: "How long an attempt to send to one target takes.", Buckets: seconds,
		}, []string{"app", "platform"}),
		ended: counters("pushpace_ended_total", "Notifications that have ended, and jobs set aside as malformed.", "state"),
		unknown: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pushpace_unknown_category_total",
			Help: "Notifications of a category that is not configured, unless limits.unknown_category allows them. The log names each category once.",
		}),
		noZone: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pushpace_unknown_time_zone_total",
			Help: "Notifications with an unknown time zone. limits.time_zone is used for them.",
		}),
		closings: counters("pushpace_provider_closings_total", "Times that this worker closed an app's route to a provider, by the answer. Only the first worker counts a delay that all workers share.", "app", "platform", "reason"),
		posted: counters("pushpace_webhook_attempts_total",
			"Requests to an app's webhook for dead_tokens or outcomes. The result is ok or failed.", "app", "webhook", "result"),
		requests: counters("pushpace_http_requests_total",
			"Answered requests to the API, by the class of the status.", "route", "method", "status"),
		answers: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pushpace_http_request_seconds", Help: "How long the API takes to answer.", Buckets: seconds,
		}, []string{"route", "method"}),
	}
	m.registry.MustRegister(
		m.queueAge, m.acquire, m.deferrals, m.lateness, m.attempts, m.provider, m.ended, m.unknown, m.noZone, m.closings, m.posted, m.requests, m.answers,
		credentials{s.Senders}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.registerFunctions(s)
	if s.Redis != nil {
		m.registry.MustRegister(troubles(s.Redis))
	}
	if s.Worker != nil {
		m.registry.MustRegister(routes{s.Worker})
	}
	if s.Backlog != nil {
		m.backlog = newBacklog(s.Backlog, s.Redis[QueueRedis])
		m.registry.MustRegister(m.backlog)
	}
	for app, platforms := range s.Senders {
		m.apps[app] = true
		for platform := range platforms {
			for _, service := range push.Services(platform) {
				m.provider.WithLabelValues(app, string(service))
			}
		}
	}
	for _, state := range slices.Concat(store.EndStates, []push.State{store.Malformed}) {
		m.ended.WithLabelValues(string(state))
	}
	m.SetCategories(nil)
	return m
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

// registerFunctions registers the numbers that the sources count.
func (m *Metrics) registerFunctions(s Sources) {
	gauge := func(name, help string, value func() float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	counter := func(name, help string, value func() float64) {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value))
	}
	if s.ClockOffset != nil {
		gauge("pushpace_clock_offset_seconds", "How far the clock of the limits' Redis is ahead of this machine's.",
			func() float64 { return s.ClockOffset().Seconds() })
	}
	if s.Reload != nil {
		gauge("pushpace_config_last_reload_successful", "1 if the last reload of the configuration succeeded. 0 means that the next start fails.",
			func() float64 { ok, _ := s.Reload(); return oneIf(ok) })
		gauge("pushpace_config_last_reload_success_timestamp_seconds", "When a configuration was last loaded, the start included, in Unix time.",
			func() float64 { _, at := s.Reload(); return float64(at.Unix()) })
	}
	if s.Outages != nil {
		counter("pushpace_limiter_unchecked_total", "Notifications sent unchecked while the limits' Redis was away, with limits.on_outage open.",
			func() float64 { return float64(s.Outages().Unchecked) })
		gauge("pushpace_limiter_away", "1 while the limits' Redis, or a node of it, is away. A node without a request for half a minute does not count.",
			func() float64 { return oneIf(!s.Outages().Since.IsZero()) })
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Close ends the background reads.
func (m *Metrics) Close() error {
	if m.backlog != nil {
		m.backlog.close()
	}
	return nil
}

// SetCategories sets the configured categories. All others get the label Other.
func (m *Metrics) SetCategories(names []string) {
	known := make(map[string]bool, len(names))
	for _, name := range names {
		known[name] = true
	}
	m.categories.Store(&known)
}

// app is the label of an app.
func (m *Metrics) app(name string) string {
	if m.apps[name] {
		return name
	}
	return Other
}

// longestAge bounds an age that depends on a producer's clock: a clock that is off by years would
// outweigh all other ages in the sum.
const longestAge = 24 * time.Hour

// Handled implements worker.Observer.
func (m *Metrics) Handled(age time.Duration) { m.queueAge.Observe(min(age, longestAge).Seconds()) }

// Checked implements worker.Observer.
func (m *Metrics) Checked(took time.Duration) { m.acquire.Observe(took.Seconds()) }

// Deferred implements worker.Observer.
func (m *Metrics) Deferred(app, category string, d throttle.Decision) {
	scope, rule := "category", "rate"
	if d.Scope == throttle.General {
		scope = "general"
	}
	if d.Rule == throttle.GapRule || d.Rule == throttle.QuietRule {
		rule = d.Rule
	}
	if category != "" && !(*m.categories.Load())[category] {
		category = Other
	}
	m.deferrals.WithLabelValues(m.app(app), category, scope, rule).Inc()
}

// Paced implements worker.Observer.
func (m *Metrics) Paced(lateness time.Duration) { m.lateness.Observe(lateness.Seconds()) }

// Attempted implements worker.Observer.
func (m *Metrics) Attempted(app string, platform push.Platform, o providers.Outcome, took time.Duration) {
	app = m.app(app)
	m.attempts.WithLabelValues(app, string(platform), o.Kind.String(), string(o.Reason)).Inc()
	m.provider.WithLabelValues(app, string(platform)).Observe(took.Seconds())
}

// Closed implements worker.Observer.
func (m *Metrics) Closed(app string, platform push.Platform, reason providers.Reason) {
	m.closings.WithLabelValues(m.app(app), string(platform), string(reason)).Inc()
}

// UnknownCategory implements worker.Observer.
func (m *Metrics) UnknownCategory() { m.unknown.Inc() }

// UnknownTimeZone implements worker.Observer.
func (m *Metrics) UnknownTimeZone() { m.noZone.Inc() }

// Posted implements worker.Observer.
func (m *Metrics) Posted(app string, kind webhook.Kind, taken bool) {
	result := "failed"
	if taken {
		result = "ok"
	}
	m.posted.WithLabelValues(m.app(app), string(kind), result).Inc()
}

// Ended implements worker.Observer.
func (m *Metrics) Ended(s push.State) { m.ended.WithLabelValues(string(s)).Inc() }
