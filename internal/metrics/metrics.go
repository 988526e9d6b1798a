// Package metrics counts what a worker does, for Prometheus. Labels come from
// closed sets and from the configuration: never from a user, a token or a
// notification.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
)

// Sources are what is read at each scrape.
type Sources struct {
	// ClockOffset answers how far Redis's clock is ahead of this machine's.
	ClockOffset func() time.Duration
	// Outages answers the counts of the limiter's outages.
	Outages func() throttle.OutageStats
	// Senders by app and platform.
	Senders map[string]map[push.Platform]providers.Sender
}

// Metrics is a worker.Observer with a registry of its own.
type Metrics struct {
	registry *prometheus.Registry

	checks    prometheus.Counter
	deferrals *prometheus.CounterVec
	lateness  prometheus.Histogram
	attempts  *prometheus.CounterVec
	ended     *prometheus.CounterVec
	breaker   *prometheus.GaugeVec
	pauses    *prometheus.CounterVec
}

// New returns metrics at zero.
func New(s Sources) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		checks: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pushpace_checks_total", Help: "Times that the limiter was asked.",
		}),
		deferrals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pushpace_deferrals_total", Help: "Times that a notification was put off, by the kind of limit.",
		}, []string{"scope", "rule"}),
		lateness: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "pushpace_lateness_seconds", Help: "How much after its slot a notification that had to wait goes out.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pushpace_attempts_total", Help: "Attempts to send to one target, by what became of them.",
		}, []string{"app", "platform", "kind", "reason"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pushpace_ended_total", Help: "Notifications that have ended, and jobs set aside as malformed.",
		}, []string{"state"}),
		breaker: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pushpace_breaker_open", Help: "1 while an app's provider is in trouble and its notifications wait.",
		}, []string{"app", "platform"}),
		pauses: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pushpace_pauses_total", Help: "Pauses that this worker has begun for all of them.",
		}, []string{"app", "platform", "reason"}),
	}
	m.registry.MustRegister(
		m.checks, m.deferrals, m.lateness, m.attempts, m.ended, m.breaker, m.pauses,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "pushpace_clock_offset_seconds", Help: "How far the clock of the limiter's Redis is ahead of this machine's.",
		}, func() float64 { return s.ClockOffset().Seconds() }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "pushpace_limiter_outages_total", Help: "Outages of the limiter's Redis that have begun.",
		}, func() float64 { return float64(s.Outages().Outages) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "pushpace_limiter_unchecked_total", Help: "Notifications admitted unchecked in an outage.",
		}, func() float64 { return float64(s.Outages().Unchecked) }),
		credentials{s.Senders},
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	for app, platforms := range s.Senders {
		for platform := range platforms {
			m.Breaker(app, platform, false)
		}
	}
	return m
}

// Checked implements worker.Observer.
func (m *Metrics) Checked() { m.checks.Inc() }

// Deferred implements worker.Observer.
func (m *Metrics) Deferred(d throttle.Decision) {
	scope, rule := "category", "rate"
	if d.Scope == throttle.General {
		scope = "general"
	}
	if d.Rule == "gap" {
		rule = "gap"
	}
	m.deferrals.WithLabelValues(scope, rule).Inc()
}

// Paced implements worker.Observer.
func (m *Metrics) Paced(lateness time.Duration) { m.lateness.Observe(lateness.Seconds()) }

// Attempted implements worker.Observer.
func (m *Metrics) Attempted(app string, platform push.Platform, o providers.Outcome) {
	m.attempts.WithLabelValues(app, string(platform), o.Kind.String(), string(o.Reason)).Inc()
}

// Breaker implements worker.Observer.
func (m *Metrics) Breaker(app string, platform push.Platform, open bool) {
	value := 0.0
	if open {
		value = 1
	}
	m.breaker.WithLabelValues(app, string(platform)).Set(value)
}

// Paused implements worker.Observer.
func (m *Metrics) Paused(app string, platform push.Platform, reason providers.Reason) {
	m.pauses.WithLabelValues(app, string(platform), string(reason)).Inc()
}

// Ended implements worker.Observer.
func (m *Metrics) Ended(s push.State) { m.ended.WithLabelValues(string(s)).Inc() }
