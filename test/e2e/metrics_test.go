//go:build e2e && unix

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/pushpace/pushpace"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/test/rig"
)

func TestMetricsOnTakenAddress(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	s.Env = append(s.Env, "PUSHPACE_TELEMETRY__LISTEN=:0")
	workers := s.Serve(t)
	address := regexp.MustCompile(`127\.0\.0\.1:\d+/`).FindString(workers.Stderr.String())
	s.Env = append(s.Env, "PUSHPACE_TELEMETRY__LISTEN="+strings.TrimSuffix(address, "/"))
	p := rig.Start(t, s.Setup, "serve")
	if got := p.Wait(t); got != rig.Failed || !strings.HasPrefix(p.Stderr.String(), "pushpace: telemetry.listen: ") || strings.Count(p.Stderr.String(), "\n") != 1 {
		t.Errorf("exit status %d: %s", got, &p.Stderr)
	}
	s.Stop(t, workers)
}

// everyMetric makes the program produce every metric, and returns all metrics. It fails if a label
// has a user's name or other private data.
func everyMetric(t *testing.T) map[string]series {
	t.Helper()
	node := redistest.StartCluster(t, 1)[0] // a Cluster has metrics of its own
	s := &rig.Site{}
	s.Dir = rig.Write(t, "config.yaml", strings.Replace(string(pushpace.ConfigYAML), "address: embedded ", "address: ["+strconv.Quote(node.Addr())+"] ", 1))
	s.StandIns(t, 0).FCM.RespondAlways(standin.Answer{Status: http.StatusTooManyRequests, RetryAfter: time.Minute})
	config, err := os.ReadFile(filepath.Join(s.Dir, "config.yaml"))
	rig.Must(t, err)
	var spans atomic.Int64 // bytes
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/traces" {
			n, _ := io.Copy(io.Discard, r.Body)
			spans.Add(n)
		}
	}))
	t.Cleanup(hook.Close)
	withMore := strings.Replace(string(config), "\napps:\n", "\napps:\n  kiosk: {apns: {topic: com.example.kiosk, certificate_file: kiosk.pem, concurrency: 4, quota: {rate: 100/1s}}}\n", 1)
	withMore = strings.Replace(withMore, "{simulated: true}", "{simulated: true, outcomes: {webhook: {url: \""+hook.URL+"\", secret: whsec_aSecretOfThisTestWith24Bytes0123}}}", 1)
	rig.Must(t, os.WriteFile(filepath.Join(s.Dir, "config.yaml"), []byte(withMore), 0o600))
	rig.WriteCertificate(t, filepath.Join(s.Dir, "kiosk.pem"), time.Now().Add(time.Hour))
	s.Env = append(s.Env, "PUSHPACE_TELEMETRY__LISTEN=:0", "PUSHPACE_HTTP__LISTEN=:0", "PUSHPACE_WORKER__OUTCOMES=1000", "PUSHPACE_WORKER__DEAD_LETTERS=1",
		"PUSHPACE_TELEMETRY__TRACING__ENDPOINT="+hook.URL, "PUSHPACE_TELEMETRY__TRACING__RATIO=1")
	workers := s.Serve(t)
	log := workers.Stderr.String()
	metrics := regexp.MustCompile(`http://127\.0\.0\.1:\d+/metrics`).FindString(log)
	api := regexp.MustCompile(`msg=api url=(http://127\.0\.0\.1:\d+)`).FindStringSubmatch(log)
	if metrics == "" || api == nil {
		t.Fatalf("standard error: %s", log)
	}
	s.Send(t, rig.Notification("one", "ada", "marketing", "apns", "00fc")+rig.Notification("tomorrow", "ada", "marketing", "apns", "00fc")+
		rig.Notification("three", "ben", "", "fcm", "a-token")+rig.Notification("four", "cleo", "", "fcm", "b-token")+rig.Notification("five", "dan", "", "fcm", "c-token")+
		rig.Notification("six", "eve", "", "apns", "fade0413")+rig.Notification("seven", "eve", "", "apns", "fade0413"))
	if status, body := rig.Fetch(t, api[1]+"/v1/audit"); status != http.StatusOK {
		t.Fatalf("%d: %s", status, body)
	}
	for _, probe := range []string{"/healthz", "/readyz"} { // must need no token
		if status, body := rig.Fetch(t, api[1]+probe); status != http.StatusOK {
			t.Errorf("%s of the API: %d: %s", probe, status, body)
		}
	}
	var all map[string]series
	var text string
	workers.Until(t, "a delivery that the webhook is told of, a deferral, and a provider that is closed", func() bool {
		_, text = rig.Fetch(t, metrics)
		all = parseMetrics(text)
		for _, name := range []string{"deferrals_total", "webhook_attempts_total", "provider_closed", "provider_closings_total", "dropped_total"} {
			if all["pushpace_"+name] == nil {
				return false
			}
		}
		return strings.Contains(text, `pushpace_ended_total{state="delivered"} 1`)
	})
	// this API does not fail, so that the label's value 5xx is missing
	if all["pushpace_http_requests_total"] == nil {
		t.Fatalf("the API's requests are not counted:\n%s", text)
	}
	all["pushpace_http_requests_total"]["status"]["5xx"] = true
	for _, private := range []string{"cleo", "tomorrow", "fade0413", "a-token"} {
		if strings.Contains(text, private) {
			t.Errorf("the metrics contain %q", private)
		}
	}
	s.Stop(t, workers) // sends the rest of the spans
	if spans.Load() == 0 {
		t.Error("the collector is sent no spans")
	}
	return all
}

// The dashboard, the alert rules and the table in docs/ name exactly the program's metrics.
func TestDashboardNamesEveryMetric(t *testing.T) {
	t.Parallel()
	all := everyMetric(t)
	drawn := map[string]bool{}
	check := func(what, expr string) {
		t.Helper()
		metrics, err := checkPromQL(expr, all)
		if err != nil {
			t.Errorf("%s: %s: %v", what, expr, err)
		}
		for _, m := range metrics {
			drawn[family(m, all)] = true
		}
	}
	for what, expr := range dashboard(t) {
		check(what, expr)
	}
	for _, name := range families(all) {
		if !drawn[name] {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
	for what, expr := range alerts(t) {
		check(what, expr)
	}
	docs, err := os.ReadFile("../../docs/metrics.md")
	rig.Must(t, err)
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(pushpace_[a-z_]+)` \\| ?([^|]*) ?\\|").FindAllStringSubmatch(string(docs), -1) {
		listed[m[1]] = true
		for _, label := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(m[2], -1) {
			if all[m[1]][label[1]] == nil && all[m[1]+"_bucket"][label[1]] == nil {
				t.Errorf("docs/metrics.md: %s has no label %s", m[1], label[1])
			}
		}
	}
	for _, name := range families(all) {
		if !listed[name] {
			t.Errorf("docs/metrics.md does not list %s", name)
		}
		delete(listed, name)
	}
	for name := range listed {
		t.Errorf("docs/metrics.md lists %s, which is not told", name)
	}
}

// dashboard returns the dashboard's expressions by title.
func dashboard(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/grafana/pushpace.json")
	rig.Must(t, err)
	var d struct {
		Templating struct {
			List []struct{ Name, Query string }
		}
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ RefID, Expr string }
		}
	}
	rig.Must(t, json.Unmarshal(text, &d))
	all, ids := map[string]string{}, map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" || len(p.Targets) == 0 {
			t.Errorf("panel %d %q", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			all[fmt.Sprintf("panel %q %s", p.Title, target.RefID)] = target.Expr
		}
	}
	for _, v := range d.Templating.List {
		if m := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(v.Query); m != nil {
			all["variable "+v.Name] = "sum by (" + m[2] + ") (" + m[1] + ")"
		}
	}
	if len(all) < 20 {
		t.Errorf("only %d expressions", len(all))
	}
	return all
}

// alerts returns the rules' expressions by their names.
func alerts(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/prometheus/alerts.yaml")
	rig.Must(t, err)
	var file struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []struct {
				Alert       string            `yaml:"alert"`
				Expr        string            `yaml:"expr"`
				For         time.Duration     `yaml:"for"`
				Labels      map[string]string `yaml:"labels"`
				Annotations map[string]string `yaml:"annotations"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	rig.Must(t, yaml.UnmarshalWithOptions(text, &file, yaml.Strict()))
	all := map[string]string{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			severity := r.Labels["severity"]
			if all[r.Alert] != "" || !strings.HasPrefix(r.Alert, "Pushpace") || severity != "page" ||
				r.Annotations["summary"] == "" || r.Annotations["description"] == "" || !regexp.MustCompile(`(==|<|>) \S`).MatchString(r.Expr) {
				t.Errorf("rule %q: %+v", r.Alert, r)
			}
			all[r.Alert] = r.Expr
		}
	}
	if len(all) < 10 {
		t.Errorf("only %d rules", len(all))
	}
	return all
}

// A series has a metric's label names with their values, from the program's output.
type series map[string]map[string]bool

// parseMetrics reads the text format.
func parseMetrics(text string) map[string]series {
	all := map[string]series{}
	label := regexp.MustCompile(`([a-z_]+)="((?:[^"\\]|\\.)*)"`)
	for line := range strings.Lines(text) {
		m := regexp.MustCompile(`^([a-z_]+)(?:\{(.*)\})? \S+\n$`).FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if all[m[1]] == nil {
			all[m[1]] = series{}
		}
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			if all[m[1]][l[1]] == nil {
				all[m[1]][l[1]] = map[string]bool{}
			}
			all[m[1]][l[1]][l[2]] = true
		}
	}
	return all
}

var (
	promMetric   = regexp.MustCompile(`\bpushpace_[a-z_]+`)
	promSelector = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\{([^{}]*)\}`)
	promMatcher  = regexp.MustCompile(`^\s*([a-z_]+)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*")\s*$`)
	promGrouping = regexp.MustCompile(`\b(?:by|without|on) \(([a-z_, ]*)\)`)
)

// checkPromQL returns the metrics in an expression. It returns an error for a metric, a label or a
// label's value that the program does not have.
func checkPromQL(expr string, told map[string]series) (metrics []string, err error) {
	for _, m := range promSelector.FindAllStringSubmatch(expr, -1) {
		for matcher := range strings.SplitSeq(m[2], ",") {
			part := promMatcher.FindStringSubmatch(matcher)
			switch {
			case part == nil:
				return nil, fmt.Errorf("the matcher %q", matcher)
			case m[1] == "up": // Prometheus's own
			case told[m[1]][part[1]] == nil:
				return nil, fmt.Errorf("%s has no label %s", m[1], part[1])
			case part[2] == "=" && !told[m[1]][part[1]][strings.Trim(part[3], `"`)]:
				return nil, fmt.Errorf("%s has no %s", m[1], matcher)
			}
		}
	}
	for _, metric := range promMetric.FindAllString(expr, -1) {
		if told[metric] == nil {
			return nil, fmt.Errorf("the program tells no %s", metric)
		}
		metrics = append(metrics, metric)
	}
	for _, m := range promGrouping.FindAllStringSubmatch(expr, -1) {
		for group := range strings.SplitSeq(m[1], ", ") {
			if group != "instance" && !slices.ContainsFunc(metrics, func(m string) bool { return told[m][group] != nil }) {
				return nil, fmt.Errorf("no label %s to group by", group)
			}
		}
	}
	if strings.Count(expr, "(") != strings.Count(expr, ")") {
		return nil, errors.New("a bracket is missing")
	}
	return metrics, nil
}

// family returns the metric of a sample.
func family(sample string, told map[string]series) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if name, ok := strings.CutSuffix(sample, suffix); ok && told[name+"_bucket"] != nil {
			return name
		}
	}
	return sample
}

// families returns the program's own metrics.
func families(told map[string]series) []string {
	ours := map[string]bool{}
	for name := range told {
		if strings.HasPrefix(name, "pushpace_") {
			ours[family(name, told)] = true
		}
	}
	return slices.Sorted(maps.Keys(ours))
}
