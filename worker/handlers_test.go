package worker

import (
	"testing"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/route"
)

// Each push service of a platform may have as many jobs before its gate as any other.
func TestHandlersForEachPushService(t *testing.T) {
	t.Parallel()
	of := func(platforms ...push.Platform) int {
		senders := map[push.Platform]providers.Sender{}
		for _, p := range platforms {
			senders[p] = nil
		}
		o := Options{Concurrency: 100, Senders: map[string]map[push.Platform]providers.Sender{"shop": senders}}
		return o.handlers()
	}
	one := route.InHand(100)
	if got, want := of(push.PlatformWebPush)-of(), len(push.Services(push.PlatformWebPush))*one; got != want {
		t.Errorf("Web Push adds %d handlers, want %d", got, want)
	}
	if got := of(push.APNs) - of(); got != one {
		t.Errorf("APNs adds %d handlers, want %d", got, one)
	}
}
