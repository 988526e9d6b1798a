package providers

import (
	"net/http"
	"testing"
	"time"
)

func TestRetryAfterIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, header string
		want         time.Duration
	}{
		{"missing", "", 0},
		{"seconds", "30", 30 * time.Second},
		{"zero is a second", "0", time.Second},
		{"a day is an hour", "86400", time.Hour},
		{"longer than an int64", "99999999999999999999", time.Hour},
		{"date", "Fri, 20 Nov 2026 20:02:00 GMT", 2 * time.Minute},
		{"date in the past", "Fri, 20 Nov 2026 19:00:00 GMT", time.Second},
		{"date next year", "Sat, 20 Nov 2027 20:00:00 GMT", time.Hour},
		{"negative", "-5", 0},
		{"fraction", "1.5", 0},
	} {
		if got := RetryAfter(http.Header{"Retry-After": {c.header}}, now); got != c.want {
			t.Errorf("%s: RetryAfter(%q) = %v, want %v", c.name, c.header, got, c.want)
		}
	}
}
