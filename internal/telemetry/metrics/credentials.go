package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

// credentials collects when the senders' credentials expire. A credential that does not expire has
// no sample.
type credentials struct {
	senders map[string]map[push.Platform]providers.Sender
}

var credentialExpiry = prometheus.NewDesc("pushpace_credential_expiry_timestamp_seconds",
	"When the certificate in use expires, in Unix time. Keys do not expire.", []string{"app", "platform"}, nil)

// Describe implements prometheus.Collector.
func (credentials) Describe(all chan<- *prometheus.Desc) { all <- credentialExpiry }

// Collect implements prometheus.Collector.
func (c credentials) Collect(samples chan<- prometheus.Metric) {
	for app, platforms := range c.senders {
		for platform, sender := range platforms {
			ending, ok := sender.(interface{ CredentialExpiry() (time.Time, bool) })
			if !ok {
				continue
			}
			if at, ends := ending.CredentialExpiry(); ends {
				samples <- prometheus.MustNewConstMetric(credentialExpiry, prometheus.GaugeValue, float64(at.Unix()), app, string(platform))
			}
		}
	}
}
