package webpush_test

import (
	"cmp"
	"fmt"
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/providertest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/providers/webpush"
	"github.com/pushpace/pushpace/providers/webpush/webpushtest"
	"github.com/pushpace/pushpace/push"
)

func TestMain(m *testing.M) {
	redistest.Parallel()
	goleak.VerifyTestMain(m)
}

func TestSuite(t *testing.T) {
	for _, c := range []struct {
		service push.Platform
		http1   bool
	}{{push.WebPushGoogle, false}, {push.WebPushApple, false}, {push.WebPushMozilla, true}} {
		t.Run(fmt.Sprintf("%s/HTTP1=%v", c.service, c.http1), func(t *testing.T) {
			providertest.Test(t, func(t *testing.T) providertest.Harness {
				return harness(t, c.service, webpushtest.Options{HTTP1: c.http1})
			})
		})
	}
}

func TestSuiteBehindProxy(t *testing.T) {
	providertest.TestProxy(t, func(t *testing.T) providertest.Harness {
		return harness(t, push.WebPushGoogle, webpushtest.Options{})
	})
}

func harness(t *testing.T, service push.Platform, options webpushtest.Options) providertest.Harness {
	server, cfg := start(t, options)
	endpoint := func(i int) string { return webpushtest.Endpoint(service, fmt.Sprint("capability-of-device-", i)) }
	return providertest.Harness{
		Platform: push.PlatformWebPush,
		StandIn:  server,
		New: func(t *testing.T, o providertest.Options) providers.Sender {
			cfg := cfg
			cfg.Timeout, cfg.DryRun, cfg.Endpoint = o.Timeout, o.DryRun, cmp.Or(o.Endpoint, cfg.Endpoint)
			return newSender(t, cfg)
		},
		Token:         endpoint,
		Keys:          func(i int) *push.Keys { return webpushtest.Subscription(endpoint(i)).Keys },
		Reasons:       webpush.Reasons(),
		Misconfigured: standin.Answer{Status: http.StatusUnauthorized, Reason: string(webpush.Unauthorized)},
		Rejected:      standin.Answer{Status: http.StatusRequestEntityTooLarge},
		MostInFlight:  256,
		MostOpen:      20,
		Secrets:       []string{"capability", "PRIVATE KEY", "eyJ", providertest.KeyLine(t, cfg.PrivateKeyFile, "\n"), webpushtest.Subscription(endpoint(0)).Keys.P256DH, webpushtest.Subscription(endpoint(0)).Keys.Auth},
	}
}

// start starts a stand-in for the test, and returns the configuration of a sender for it.
func start(t testing.TB, options webpushtest.Options) (*webpushtest.Server, webpush.Config) {
	t.Helper()
	server, err := webpushtest.NewServer(options)
	must(t, err)
	providertest.Closing(t, server)
	cfg, err := server.WriteCredentials(t.TempDir())
	must(t, err)
	return server, cfg
}

func newSender(t testing.TB, cfg webpush.Config) *webpush.Sender {
	t.Helper()
	sender, err := webpush.New(cfg)
	must(t, err)
	providertest.Closing(t, sender)
	return sender
}
