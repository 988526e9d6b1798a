package metrics

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.uber.org/goleak"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ worker.Observer = (*Metrics)(nil)

// ending is a sender with a credential that expires.
type ending struct{ at time.Time }

func (ending) Send(context.Context, *push.Notification, push.Target, providers.Departure) providers.Outcome {
	return providers.Outcome{}
}
func (ending) Close() error                          { return nil }
func (e ending) CredentialExpiry() (time.Time, bool) { return e.at, !e.at.IsZero() }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := m.Serve(listener, nil)
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	response, err := client.Get("http://" + s.Addr() + "/metrics")
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v", response.Status, err)
	}
	return string(text)
}

// hasLines expects each of the lines in the metrics.
func hasLines(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, want := range lines {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

func TestMetricsHaveConfiguredLabels(t *testing.T) {
	t.Parallel()
	m := New(Sources{
		ClockOffset: func() time.Duration { return -1500 * time.Millisecond },
		Outages: func() throttle.OutageStats {
			return throttle.OutageStats{Unchecked: 7, Since: time.Now()}
		},
		Senders: map[string]map[push.Platform]providers.Sender{
			"shop": {push.APNs: ending{time.Unix(1800000000, 0)}, push.FCM: ending{}},
		},
	})
	m.SetCategories([]string{"orders"})
	m.Handled(7 * time.Minute)
	m.Handled(1000 * 24 * time.Hour) // a producer's clock is wrong
	m.Checked(2 * time.Millisecond)
	m.Deferred("shop", "", throttle.Decision{Scope: throttle.General, Rule: "gap"})
	m.Deferred("shop", "a category's name", throttle.Decision{Scope: "a category's name", Rule: "10/1m"})
	m.Deferred("shop", "another one's name", throttle.Decision{Scope: "another one's name", Rule: "20/1m"})
	m.Deferred("shop", "orders", throttle.Decision{Scope: "orders", Rule: "20/1m"})
	m.Deferred("an app's name", "orders", throttle.Decision{Scope: "orders", Rule: "20/1m"})
	m.Deferred("shop", "orders", throttle.Decision{Scope: throttle.General, Rule: throttle.QuietRule})
	m.UnknownTimeZone()
	m.Paced(3 * time.Millisecond)
	m.Paced(20 * time.Second)
	m.Attempted("shop", push.APNs, providers.Outcome{Kind: providers.Delivered, Reason: providers.OK}, 30*time.Millisecond)
	m.Attempted("an app's name", push.APNs, providers.Outcome{Kind: providers.Delivered, Reason: providers.OK}, time.Second)
	m.Closed("an app's name", push.FCM, "QUOTA_EXCEEDED")
	m.Closed("shop", push.FCM, "QUOTA_EXCEEDED")
	m.Ended(push.Delivered)
	m.Ended(store.Malformed)
	text := scrape(t, m)
	hasLines(t, text,
		`pushpace_queue_age_seconds_bucket{le="300"} 0`,
		`pushpace_queue_age_seconds_bucket{le="900"} 1`,
		`pushpace_queue_age_seconds_sum 86820`,
		`pushpace_acquire_seconds_bucket{le="0.001"} 0`,
		`pushpace_acquire_seconds_bucket{le="0.0025"} 1`,
		`pushpace_deferrals_total{app="shop",category="",rule="gap",scope="general"} 1`,
		`pushpace_deferrals_total{app="shop",category="other",rule="rate",scope="category"} 2`,
		`pushpace_deferrals_total{app="shop",category="orders",rule="rate",scope="category"} 1`,
		`pushpace_deferrals_total{app="other",category="orders",rule="rate",scope="category"} 1`,
		`pushpace_deferrals_total{app="shop",category="orders",rule="quiet_hours",scope="general"} 1`,
		`pushpace_unknown_time_zone_total 1`,
		`pushpace_lateness_seconds_bucket{le="0.0025"} 0`,
		`pushpace_lateness_seconds_bucket{le="0.005"} 1`,
		`pushpace_lateness_seconds_bucket{le="10"} 1`,
		`pushpace_lateness_seconds_count 2`,
		`pushpace_attempts_total{app="shop",kind="delivered",platform="apns",reason="ok"} 1`,
		`pushpace_attempts_total{app="other",kind="delivered",platform="apns",reason="ok"} 1`,
		`pushpace_provider_seconds_bucket{app="shop",platform="apns",le="0.025"} 0`,
		`pushpace_provider_seconds_bucket{app="shop",platform="apns",le="0.05"} 1`,
		`pushpace_provider_seconds_count{app="shop",platform="fcm"} 0`,
		`pushpace_provider_seconds_count{app="shop",platform="fcm:fid"} 0`,
		`pushpace_ended_total{state="delivered"} 1`,
		`pushpace_ended_total{state="exhausted"} 0`,
		`pushpace_ended_total{state="malformed"} 1`,
		`pushpace_provider_closings_total{app="shop",platform="fcm",reason="QUOTA_EXCEEDED"} 1`,
		`pushpace_clock_offset_seconds -1.5`,
		`pushpace_limiter_unchecked_total 7`,
		`pushpace_limiter_away 1`,
		`pushpace_credential_expiry_timestamp_seconds{app="shop",platform="apns"} 1.8e+09`,
	)
	for _, not := range []string{"name", `expiry_seconds{app="shop",platform="fcm"}`} {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "pushpace_") && strings.Contains(line, not) {
				t.Errorf("%q in %s", not, line)
			}
		}
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	must(t, err)
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "pushpace_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// Counting a notification allocates nothing.
func TestCountingAllocatesNothing(t *testing.T) {
	m := New(Sources{Senders: map[string]map[push.Platform]providers.Sender{"shop": {push.APNs: ending{}, push.FCM: ending{}}}})
	m.SetCategories([]string{"marketing"})
	for name, count := range map[string]func(){
		"a delivery": func() {
			m.Handled(time.Millisecond)
			m.Checked(time.Millisecond)
			m.Attempted("shop", push.APNs, providers.Outcome{Kind: providers.Delivered, Reason: providers.OK}, time.Millisecond)
			m.Ended(push.Delivered)
		},
		"a deferral": func() {
			m.Checked(time.Millisecond)
			m.Deferred("shop", "marketing", throttle.Decision{Scope: "marketing", Rule: "1/24h"})
			m.Paced(time.Millisecond)
		},
	} {
		if n := testing.AllocsPerRun(100, count); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
