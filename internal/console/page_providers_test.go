package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/control"
	ways "github.com/pushpace/pushpace/worker/route"
)

// The next page of a long list begins after the last provider of the previous one.
func TestProvidersArePaged(t *testing.T) {
	t.Parallel()
	o := &operate.Overview{At: noon, Workers: []control.Snapshot{{ID: "w"}}}
	for i := range 2*providersPage + 3 {
		o.Providers = append(o.Providers, operate.Provider{App: fmt.Sprintf("a/%03d", i), Platform: push.FCM})
	}
	seen := 0
	for after, pages := "", 0; pages == 0 || after != ""; pages++ {
		view := viewOfProviders(o, "", after)
		for _, p := range view.Providers {
			if p.App != o.Providers[seen].App || pages > 2 {
				t.Fatalf("page %d has %s, want %s", pages, p.App, o.Providers[seen].App)
			}
			seen++
		}
		after = view.Next
	}
	if seen != len(o.Providers) {
		t.Errorf("%d are shown of %d", seen, len(o.Providers))
	}
	if got := viewOfProviders(o, "a/003/fcm", ""); len(got.Providers) != 1 || got.All {
		t.Errorf("%+v", got)
	}
}

// The page of a provider shows a bounded number of workers, failing ones first.
func TestProviderWorkersAreBounded(t *testing.T) {
	t.Parallel()
	o := &operate.Overview{At: noon}
	for i := range 100 {
		s := ways.Status{App: "shop", Platform: push.FCM, State: ways.Open, Share: new(i)}
		if i == 99 {
			s.State, s.Trouble.Reason = ways.Closed, "UNAVAILABLE"
		}
		o.Workers = append(o.Workers, control.Snapshot{ID: fmt.Sprint("w", i), Routes: []ways.Status{{App: "shop", Platform: push.APNs}, s}})
	}
	rows, more := routesOf(o, &operate.Provider{App: "shop", Platform: push.FCM})
	if len(rows) != mostRoutes || more != 100-mostRoutes || rows[0].Worker != "w99" || rows[0].Tone != words.Wrong || rows[1].Worker != "w0" || rows[1].Share != "0" {
		t.Errorf("%d more than %+v", more, rows)
	}
}

var testQuotas = operate.Quotas{
	{Key: "fcm/p", Apps: []string{"kiosk", "shop"}, Quota: config.Quota{Rate: throttle.Rate{Count: 10, Period: time.Second}}},
	{Key: "quota/eu", Name: "eu", Apps: []string{"kiosk"}, Quota: config.Quota{Rate: throttle.Rate{Count: 5, Period: time.Second}}},
}

// The console of a process without credentials shows the state of the workers' providers.
func TestProvidersPage(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *setting) { o.Work.Quotas = func() (operate.Quotas, error) { return testQuotas, nil } })
	spec := testQuotas[0].Spec().Promise()
	if a, err := r.setting.Work.Meter.Take(t.Context(), "fcm/p", spec, meter.Ask{Least: spec.AtOnce(), Most: spec.AtOnce()}); err != nil || a.Units == 0 {
		t.Fatal(a, err)
	}
	r.set(limits.Override{Level: limits.Level{Quota: "quota/eu"}, Policy: throttle.Policy{Rates: []throttle.Rate{{Count: 3, Period: time.Minute}}}})
	r.leave(control.Snapshot{
		ID: "first", Pulls: true, Quotas: []ways.QuotaStatus{{Key: "fcm/p", Rate: "10/1s", Used: .5, Waiting: 1234, Until: time.Now().Add(time.Second)}},
		Routes: []ways.Status{
			{
				App: "shop", Platform: push.FCM, State: ways.Open, InFlight: 5, Queued: 6, Latency: ways.Latency{P50: 21 * time.Millisecond, P99: 2 * time.Second},
				Answers: map[providers.Reason]int64{providers.OK: 98765, "UNREGISTERED": 4}, CredentialEnds: time.Now().Add(100*24*time.Hour + time.Hour),
			},
			{App: "shop", Platform: push.APNs, State: ways.Closed, Pause: "InvalidProviderToken", Until: time.Now().Add(time.Minute)},
		},
	})
	text := r.get(http.StatusOK, "/console/providers")
	contains(t, text, "1 of 2 providers is in trouble.", "fcm of shop", "21ms", "2s", "98,765", "UNREGISTERED", "100d", ": InvalidProviderToken; until ", "10/1s", "50 %", "1,234", "3/1m", "ann")
	if failures := strings.Join(ofClass(t, text, "fault"), "\n"); !strings.Contains(failures, "paused") || strings.Contains(failures, "1,234") {
		t.Errorf("failures:\n%s", failures)
	}
	contains(t, strings.Join(ofClass(t, text, "waits"), "\n"), "1,234")
	if text := r.get(http.StatusOK, "/console/providers?of=shop/apns"); !strings.Contains(text, "closed: nothing is sent") || strings.Contains(text, "Quotas") {
		t.Error(text)
	}
}

func TestPagesStaySmall(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *setting) {
		o.Work.Quotas = func() (all operate.Quotas, err error) {
			for i := range 2 * operate.MostQuotas {
				all = append(all, operate.Quota{Key: fmt.Sprint("fcm/", i), Apps: []string{"shop"}, Quota: testQuotas[0].Quota})
			}
			return all, nil
		}
	})
	for i := range mostRoutes + 5 {
		s := control.Snapshot{ID: fmt.Sprint("host-of-some-length-", i)}
		for app := range providersPage {
			for _, platform := range []push.Platform{push.APNs, push.FCM} {
				s.Routes = append(s.Routes, ways.Status{
					App: fmt.Sprint("app-", app), Platform: platform, State: ways.Closed, CredentialEnds: noon, Latency: ways.Latency{P50: time.Second, P99: time.Second},
					Trouble: ways.Trouble{Reason: "UNAVAILABLE", Error: strings.Repeat("e", ways.LongestCause), Since: noon, Failures: 1},
					Answers: map[providers.Reason]int64{providers.OK: 1 << 40, "UNAVAILABLE": 1 << 40, "UNREGISTERED": 1 << 40, "INTERNAL": 1 << 40},
				})
			}
		}
		r.leave(s)
	}
	for _, path := range []string{Path, "/console/providers", "/console/providers?after=app-1/fcm", "/console/providers?of=app-1/fcm"} {
		if text := r.get(http.StatusOK, path); len(text) > 60_000 {
			t.Errorf("%s: %d bytes", path, len(text))
		}
	}
}
