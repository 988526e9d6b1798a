package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pushpace/pushpace/internal/redisconn"
)

// troubles collects what trouble each Redis is in, by what the configuration
// calls it.
type troubles map[string]func() redisconn.Trouble

var redisTrouble = prometheus.NewDesc("pushpace_redis_trouble",
	"1 while this Redis is in that trouble.", []string{"redis", "reason"}, nil)

// Describe implements prometheus.Collector.
func (troubles) Describe(all chan<- *prometheus.Desc) { all <- redisTrouble }

// Collect implements prometheus.Collector.
func (t troubles) Collect(samples chan<- prometheus.Metric) {
	for name, trouble := range t {
		now := trouble()
		for _, reason := range redisconn.Troubles {
			samples <- prometheus.MustNewConstMetric(redisTrouble, prometheus.GaugeValue, oneIf(reason == now), name, string(reason))
		}
	}
}
