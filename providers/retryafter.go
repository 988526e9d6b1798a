package providers

import (
	"net/http"
	"strconv"
	"time"
)

// The bounds of a Retry-After: a shorter delay is not worth a wait, and a longer one is a
// provider's mistake, as FCM and APNs ask for retries within 60 minutes at most.
const (
	MinRetryAfter = time.Second
	MaxRetryAfter = time.Hour
)

// RetryAfter returns the delay that an answer's Retry-After header asks for,
// whether it is written as seconds or as a date (RFC 9110, section 10.2.3). The
// delay is at least MinRetryAfter and at most MaxRetryAfter; it is 0 when the
// header is missing or unreadable.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	v := h.Get("Retry-After")
	if v == "" {
		return 0
	}
	if seconds, ok := parseSeconds(v); ok {
		return min(max(time.Duration(seconds)*time.Second, MinRetryAfter), MaxRetryAfter)
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), MinRetryAfter), MaxRetryAfter)
}

// parseSeconds reads decimal digits only, as the RFC says. A number above the largest delay, of any
// length, counts as that delay.
func parseSeconds(v string) (int64, bool) {
	for i := range len(v) {
		if v[i] < '0' || v[i] > '9' {
			return 0, false
		}
	}
	const most = int64(MaxRetryAfter / time.Second)
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n > most {
		return most, true
	}
	return n, true
}
