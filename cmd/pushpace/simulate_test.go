//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/pushpace/pushpace"
	"github.com/pushpace/pushpace/internal/config"
)

// The printed settings make the shipped configuration send to the stand-ins.
func TestVariables(t *testing.T) {
	t.Parallel()
	s, err := startStandIns(t.TempDir(), func(*platform) standInOptions { return standInOptions{} })
	must(t, err)
	t.Cleanup(func() { _ = s.close() })
	for _, app := range []string{"demo", "another_app2"} {
		cfg, err := config.Parse("config.yaml", pushpace.ConfigYAML, strings.Fields(variables(app, s.app)))
		must(t, err)
		got := cfg.Apps[app]
		if got.Simulated || got.APNs == nil || *got.APNs != *s.app.APNs || got.FCM == nil || *got.FCM != *s.app.FCM {
			t.Errorf("%s: %+v", app, got)
		}
	}
}
