package worker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/providers/webpush"
	"github.com/pushpace/pushpace/providers/webpush/webpushtest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/pause"
)

// withBrowsers adds a Web Push sender through a stand-in to the shop. If there are hosts, it sends only to
// them.
func (r *rig) withBrowsers(hosts ...string) *webpushtest.Server {
	r.t.Helper()
	server, err := webpushtest.NewServer(webpushtest.Options{})
	must(r.t, err)
	r.t.Cleanup(func() { server.Close() })
	config, err := server.WriteCredentials(r.t.TempDir())
	must(r.t, err)
	config.Hosts = hosts
	config.Timeout = time.Minute // so that a late push is not repeated
	sender, err := webpush.New(config)
	must(r.t, err)
	r.t.Cleanup(func() { sender.Close() })
	r.options.Senders["shop"][push.PlatformWebPush] = sender
	return server
}

// laptop returns a browser's target at the push service.
func laptop(service push.Platform, name string) push.Target {
	return webpushtest.Subscription(webpushtest.Endpoint(service, name))
}

// A push service that fails or hangs delays only its own notifications.
func TestFailingPushServiceDelaysNoOtherService(t *testing.T) {
	const n = 20
	r := newRig(t, oneRedis(t), unlimited)
	server := r.withBrowsers()
	r.start()
	for i := range n {
		name := fmt.Sprint("silent-", i)
		server.Respond(laptop(push.WebPushApple, name).Token, standin.Answer{Fault: standin.BlackHole})
		r.enqueue(to(name, laptop(push.WebPushApple, name)))
		r.enqueue(to(fmt.Sprint("down-", i), laptop(push.WebPushMozilla, fmt.Sprint("fade0503-", i))))
	}
	if w := r.status("down-0", inspect.ForProvider).Waits; w.Platform != push.WebPushMozilla {
		t.Errorf("it waits for %+v", w)
	}
	for i := range n {
		r.enqueue(to(fmt.Sprint("fine-", i), laptop(push.WebPushGoogle, fmt.Sprint("fine-", i))))
	}
	for i := range n {
		r.expect(push.Delivered, fmt.Sprint("fine-", i))
	}
	for _, name := range []string{"silent-0", "down-1"} {
		if state := r.record(name).State; state.Ended() {
			t.Errorf("%s is %s", name, state)
		}
	}
}

// A pause of a platform pauses notifications to all of its push services, and a pause of a push service
// only its own. A resume of one does not end the other.
func TestPauseOfPlatformCoversItsPushServices(t *testing.T) {
	r := newRig(t, oneRedis(t), unlimited)
	r.withBrowsers()
	all, one := pause.Pause{App: "shop", Platform: push.PlatformWebPush, By: "ada"}, pause.Pause{App: "shop", Platform: push.WebPushGoogle, By: "ada"}
	must(t, all.Validate())
	must(t, one.Validate())
	if err := (&pause.Pause{Platform: "webpush:nobody"}).Validate(); err == nil {
		t.Error("an unknown push service can be paused")
	}
	must(t, r.control().Pause(t.Context(), &one))
	stop := r.start() // it reads the pause before it pulls
	r.enqueue(to("google", laptop(push.WebPushGoogle, "a")))
	r.status("google", inspect.ForPause)
	r.enqueue(to("apple", laptop(push.WebPushApple, "b")))
	r.ends("apple")
	stop()
	must(t, r.control().Pause(t.Context(), &all))
	r.start()
	r.enqueue(to("apple-2", laptop(push.WebPushApple, "b")))
	r.status("apple-2", inspect.ForPause)
	_, err := r.control().Resume(t.Context(), one)
	must(t, err)
	r.status("google", inspect.ForPause) // by the pause of all
	_, err = r.control().Resume(t.Context(), all)
	must(t, err)
	r.expect(push.Delivered, "google", "apple-2")
}

// Many dead endpoints of unknown hosts, which anyone may invent, do not delay notifications to other
// endpoints.
func TestDeadEndpointsDelayNoOtherEndpoint(t *testing.T) {
	const n = 110 // a hundred would be a spike
	r := newRig(t, oneRedis(t), unlimited)
	server := r.withBrowsers(push.AnyHost)
	r.start()
	for i := range n {
		r.enqueue(to(fmt.Sprint("dead-", i), webpushtest.Subscription(fmt.Sprintf("https://permanently-removed.invalid/%d", i))))
	}
	for i := range n {
		r.expect(push.Undeliverable, fmt.Sprint("dead-", i))
	}
	r.enqueue(to("fine", laptop(push.WebPushOther, "fine")))
	r.expect(push.Delivered, "fine")
	if n := server.Ledger().Len(); n != 1 {
		t.Errorf("%d were sent", n)
	}
}
