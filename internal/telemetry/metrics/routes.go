package metrics

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pushpace/pushpace/worker"
	"github.com/pushpace/pushpace/worker/route"
)

// routes collects the state of the worker and of its routes.
type routes struct{ worker func() *worker.Worker }

var (
	inFlight = prometheus.NewDesc("pushpace_in_flight", "Notifications that this process is sending, at most worker.concurrency.",
		[]string{"app", "platform"}, nil)
	queuing = prometheus.NewDesc("pushpace_provider_queue", "Notifications in this process that wait for a permit to be in flight.",
		[]string{"app", "platform"}, nil)
	share = prometheus.NewDesc("pushpace_share", "Share of the provider's concurrency: how many pushes this process may have in flight. All shares together never exceed the concurrency. Absent without concurrency.",
		[]string{"app", "platform"}, nil)
	closed = prometheus.NewDesc("pushpace_provider_closed", "1 while an app's notifications wait for its provider, also while single notifications probe the provider, by its answer (reasons.md).",
		[]string{"app", "platform", "reason"}, nil)
	quotaTaken = prometheus.NewDesc("pushpace_quota_taken_total", "Units that this worker has taken from a quota, such as fcm/PROJECT, or a throughput, such as category/APP/NAME.",
		[]string{"quota"}, nil)
	quotaWaited = prometheus.NewDesc("pushpace_quota_waited_total", "Times that a notification waited, or was retried, for units of a quota or throughput.",
		[]string{"quota"}, nil)
	quotaUsed = prometheus.NewDesc("pushpace_quota_used_ratio", "Share of the quota that this worker uses. The sum over all workers is the total use.",
		[]string{"quota"}, nil)
	holds = prometheus.NewDesc("pushpace_operator_pauses", "Operators' pauses in force.", nil, nil)
)

// Describe implements prometheus.Collector.
func (routes) Describe(all chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{inFlight, queuing, share, closed, quotaTaken, quotaWaited, quotaUsed, holds} {
		all <- d
	}
}

// Collect implements prometheus.Collector.
func (r routes) Collect(samples chan<- prometheus.Metric) {
	w := r.worker()
	if w == nil {
		return
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		samples <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	gauge(holds, float64(w.Pauses()))
	for _, q := range w.Quotas() {
		samples <- prometheus.MustNewConstMetric(quotaTaken, prometheus.CounterValue, float64(q.Taken), q.Key)
		samples <- prometheus.MustNewConstMetric(quotaWaited, prometheus.CounterValue, float64(q.Waited), q.Key)
		gauge(quotaUsed, q.Used, q.Key)
	}
	for _, s := range w.Routes() {
		app, platform := s.App, string(s.Platform)
		gauge(inFlight, float64(s.InFlight), app, platform)
		gauge(queuing, float64(s.Queued), app, platform)
		if s.Share != nil {
			gauge(share, float64(*s.Share), app, platform)
		}
		if s.State != route.Open || s.Pause != "" {
			gauge(closed, 1, app, platform, string(cmp.Or(s.Pause, s.Trouble.Reason)))
		}
	}
}
