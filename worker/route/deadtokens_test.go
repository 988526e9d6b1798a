package route

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
)

func TestTooMany(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		on          bool
		sends, dead int
		want        bool
	}{
		{false, 99, 99, false},
		{false, 100, 50, false},
		{false, 100, 51, true},
		{false, 1000, 500, false},
		{true, 1, 0, true},
		{true, 19, 0, true},
		{true, 20, 11, true},
		{true, 20, 10, false},
		{true, 1000, 900, true},
	} {
		if got := tooMany(c.on, c.sends, c.dead); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

func TestDeadTokenRatio(t *testing.T) {
	t.Parallel()
	dead := providers.Outcome{Kind: providers.DeadToken, Reason: "BadDeviceToken", Err: errors.New("why")}
	other := providers.Outcome{Kind: providers.Retry}
	var s deadTokenRatio
	now := time.Unix(1_795_219_200, 0)
	judge := func(o providers.Outcome, n int) (last providers.Outcome) {
		for range n {
			last, _ = s.judge(now, o)
		}
		return last
	}
	judge(dead, 99)
	now = now.Add(time.Minute)
	if got := judge(dead, 99); got.Kind != providers.DeadToken {
		t.Errorf("99 dead tokens in the minute, and 99 before: %+v", got)
	}
	judge(other, 100)
	if got := judge(dead, 1); got.Kind != providers.Misconfigured || got.Reason != providers.DeadTokenSpike || !errors.Is(got.Err, dead.Err) {
		t.Errorf("100 dead tokens in the minute: %+v", got)
	}
	now = now.Add(time.Hour)
	if got := judge(dead, 1); got.Kind != providers.Misconfigured {
		t.Errorf("the next one, an hour later: %+v", got)
	}
	judge(works, 18)
	if got := judge(dead, 1); got.Kind != providers.DeadToken {
		t.Errorf("2 of 20 since: %+v", got)
	}
	s.begin()
	if got := judge(dead, 1); got.Kind != providers.Misconfigured {
		t.Errorf("after another worker has seen a spike: %+v", got)
	}
	if got := judge(works, 1); got != works {
		t.Errorf("what is delivered in a spike: %+v", got)
	}
}

// Many dead tokens tell of the app where one push service says so, and not where each host
// speaks for its own.
func TestDeadTokensOfManyHosts(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		rs := routesOf(client, "", "", map[push.Platform]providers.Sender{push.PlatformWebPush: nil}, 0)
		dead := providers.Outcome{Kind: providers.DeadToken, Reason: "gone", Concerns: providers.ConcernsToken, Err: errors.New("why")}
		for service, want := range map[push.Platform]providers.Kind{push.WebPushMozilla: providers.Misconfigured, push.WebPushOther: providers.DeadToken} {
			var last providers.Outcome
			for range ratioBegins {
				last = rs.Learn(t.Context(), rs.Of("shop")[service], dead, "")
			}
			if last.Kind != want {
				t.Errorf("%s: the last of %d dead tokens is %+v, want %s", service, ratioBegins, last, want)
			}
		}
	})
}
