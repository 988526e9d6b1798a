package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/redisconn"
)

// troubles collects each Redis's trouble, by configuration key.
type troubles map[string]func() redisconn.Status

var redisTrouble = prometheus.NewDesc("pushpace_redis_trouble",
	"1 while this Redis of the configuration, or a node of a Cluster, has this trouble. The log says what to do.", []string{"redis", "reason"}, nil)

// Describe implements prometheus.Collector.
func (troubles) Describe(all chan<- *prometheus.Desc) { all <- redisTrouble }

// Collect implements prometheus.Collector.
func (t troubles) Collect(samples chan<- prometheus.Metric) {
	for name, status := range t {
		now := status()
		in := map[redisreply.Trouble]bool{now.Trouble: true}
		for _, node := range now.Nodes {
			in[node.Trouble] = true
		}
		for _, reason := range redisreply.Troubles {
			samples <- prometheus.MustNewConstMetric(redisTrouble, prometheus.GaugeValue, oneIf(in[reason]), name, string(reason))
		}
	}
}
