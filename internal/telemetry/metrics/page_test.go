package metrics

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pushpace/pushpace/internal/base/golden"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker"
)

// described matches a description's text. Only this text has its labels.
var described = regexp.MustCompile(`fqName: "(pushpace_\w+)", help: "(.*?)", (?:unit: "", )?constLabels: \{\}, variableLabels: \{([\w,]*)\}`)

// docs/metrics.md has each metric with its labels and its help.
func TestMetricsPageIsCurrent(t *testing.T) {
	t.Parallel()
	m := New(Sources{
		ClockOffset: func() time.Duration { return 0 }, Outages: func() throttle.OutageStats { return throttle.OutageStats{} },
		Worker: func() *worker.Worker { return nil }, Backlog: func(context.Context) (Backlog, error) { return Backlog{}, nil }, Redis: map[string]func() redisconn.Status{},
		Reload: func() (bool, time.Time) { return true, time.Time{} },
	})
	defer m.Close()
	all := make(chan *prometheus.Desc)
	go func() { m.registry.Describe(all); close(all) }()
	var rows []string
	for d := range all {
		if found := described.FindStringSubmatch(d.String()); found != nil {
			labels := ""
			if found[3] != "" {
				labels = "`" + strings.ReplaceAll(found[3], ",", "`, `") + "`"
			}
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |\n", found[1], labels, found[2]))
		}
	}
	slices.Sort(rows)
	page := "# Metrics\n\nThis page is generated from the help texts of `GET /metrics`. [running.md](running.md#metrics) says where to scrape it.\n\n| Metric | Labels | Meaning |\n|---|---|---|\n" + strings.Join(rows, "")
	golden.Match(t, "../../../docs/metrics.md", page)
}
