package judge

import (
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/violations"
	"github.com/pushpace/pushpace/throttle"
)

func TestHistoryReturnsPoliciesInForce(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	p := throttle.Policy{MinGap: time.Minute}
	h := &History{
		general: throttle.Policy{MinGap: 1500 * time.Millisecond}, late: time.Second,
		levels: map[[2]string][]ruled{{"u", ""}: {{at, &p}, {at.Add(10 * time.Second), nil}}},
	}
	for second, want := range map[int]string{-1: "1.5s", 1: "1.5s 1m0s", 2: "1m0s", 9: "1m0s", 10: "1m0s 1.5s", 11: "1m0s 1.5s", 12: "1.5s"} {
		var got []string
		for _, policy := range h.InForce(violations.Push{User: "u", At: at.Add(time.Duration(second)*time.Second - time.Millisecond)}).General {
			got = append(got, policy.MinGap.String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%d s: %v, want %s", second, got, want)
		}
	}
}
