package duration

import (
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"5d": 5 * day, "1.5d": 36 * time.Hour, "1d12h30m": 36*time.Hour + 30*time.Minute, "-1d12h": -36 * time.Hour, "+1d": day,
		"0d": 0, "90s": 90 * time.Second, "2h": 2 * time.Hour, "0": 0, "106751d": 106751 * day,
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "5", "5 d", "-d", "1d-2h", "1d2", "12h1d", "1h2d", "1d1d", "106752d", "106751d24h", "5days", "five d", "--1d"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
