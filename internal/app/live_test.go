package app

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/throttle"
)

// A changed key waits for the next start if it does not fit the keys that cannot change.
func TestChangeThatDoesNotFitWaitsForRestart(t *testing.T) {
	t.Parallel()
	s := new(System)
	start := new(config.Config)
	start.SetDefaults()
	start.HTTP.Listen = "0.0.0.0:80"
	parts := s.live(&configured{started: start})
	for name, c := range map[string]struct {
		key    string
		change func(*config.Config)
		want   bool
	}{
		"a period within the horizon":     {"limits.default.rates", func(c *config.Config) { c.Limits.Default.MinGap = time.Hour }, true},
		"a period beyond the old horizon": {"limits.default.rates", func(c *config.Config) { c.Limits.Horizon, c.Limits.Default.MinGap = 48*time.Hour, 30*time.Hour }, false},
		"a category's beyond the horizon": {"limits.categories.x", func(c *config.Config) {
			c.Limits.Categories = map[string]config.Category{"x": {Policy: throttle.Policy{MinGap: 30 * time.Hour}}}
		}, false},
		"no tokens for everyone": {"http.tokens", func(*config.Config) {}, false},
		"other tokens":           {"http.tokens", func(c *config.Config) { c.HTTP.Tokens = make([]config.Token, 1) }, true},
		"devices' rates":         {"limits.device.rates", func(*config.Config) {}, true},
		"the level":              {"log.level", func(*config.Config) {}, true},
	} {
		cfg := new(config.Config)
		cfg.SetDefaults()
		c.change(cfg)
		found := false
		for _, part := range parts {
			if part.has(c.key) {
				found = true
				if got := part.fits == nil || part.fits(cfg); got != c.want {
					t.Errorf("%s: %t", name, got)
				}
			}
		}
		if !found {
			t.Errorf("%s: no part has %s", name, c.key)
		}
	}
}

// docs/configuration.md says for every key whether a change takes effect at once.
func TestConfigurationPageShowsReloadOfKeys(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/configuration.md")
	must(t, err)
	live := new(System).live(&configured{started: new(config.Config)})
	has := func(key string) bool {
		return slices.ContainsFunc(live, func(part *livePart) bool { return part.has(key) })
	}
	var rows []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)`[^|]* \\| [^|]* \\| [^|]* \\| (at once|numbers|restart) \\|").FindAllStringSubmatch(string(page), -1) {
		key := strings.ReplaceAll(m[1], "[]", "[0]")
		rows = append(rows, key)
		want := "restart"
		if has(key) {
			want = "at once"
		} else if has(key + ".rate") {
			want = "numbers"
		}
		if m[2] != want {
			t.Errorf("%s: the page says %s, want %s", key, m[2], want)
		}
	}
	for _, part := range live {
		for _, key := range part.keys {
			key = strings.TrimSuffix(strings.ReplaceAll(key, ".*.", ".NAME."), ".*")
			if !slices.ContainsFunc(rows, func(row string) bool { return config.Within(strings.ReplaceAll(row, "[0]", ""), key) }) {
				t.Errorf("the page does not have %s", key)
			}
		}
	}
}
