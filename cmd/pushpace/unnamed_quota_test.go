//go:build unix

package main

import (
	"regexp"
	"strings"
	"testing"
)

// A quota that no app names bounds nothing: check, the start and a reload warn of it, and
// whoever would change its rate is told, by the API in the same words.
func TestQuotaThatNoAppNames(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.configure(t, shippedLimits, "quotas: {europe: {rate: 600/1m, apps: [demo]}}\n  "+shippedLimits)
	const bounds = ": bounds nothing: no app names it; write apps.demo.webpush.quota: "
	if got := ended(t, s.setup, "check"); got.status != exitDone || !regexp.MustCompile(`pushpace: warning: \S*config.yaml:\d+:\d+: limits.quotas.europe`+bounds+"europe\n").MatchString(got.stderr) {
		t.Errorf("%+v", got)
	}
	p, url := s.guardedAPI(t)
	p.says(t, 1, "level=WARN", "limits.quotas.europe"+bounds+"europe")
	s.configure(t, shippedLimits, "quotas: {europe: {rate: 600/1m, apps: [demo]}, asia: {rate: 600/1m, apps: [demo]}}\n  "+shippedLimits)
	p.hangUp(t)
	p.says(t, 1, "level=WARN", "limits.quotas.asia"+bounds+"asia")
	for _, where := range []setup{s.setup, through(url, operatorToken)} {
		for _, name := range []string{"europe", "asia"} {
			want := "quota " + name + " is in the configuration, but no app names it: write apps.demo.webpush.quota: " + name
			if got := ended(t, where, "limits", "set", "--quota", name, "--rate", "1/1m"); got.status != exitUsage || !strings.Contains(got.stderr, want) {
				t.Errorf("%s: %+v", name, got)
			}
		}
		if got := ended(t, where, "limits", "quotas"); got.status != exitDone || strings.Contains(got.stdout, "europe") {
			t.Errorf("%+v", got)
		}
	}
	s.stop(t, p)
}
