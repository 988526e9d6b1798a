package fcm_test

import (
	"cmp"
	"fmt"
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/fcm"
	"github.com/pushpace/pushpace/providers/fcm/fcmtest"
	"github.com/pushpace/pushpace/providers/providertest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

func TestMain(m *testing.M) {
	redistest.Parallel()
	goleak.VerifyTestMain(m)
}

func TestSuite(t *testing.T) {
	for _, protocol := range []struct {
		name  string
		http1 bool
	}{{"HTTP2", false}, {"HTTP1", true}} {
		t.Run(protocol.name, func(t *testing.T) {
			providertest.Test(t, func(t *testing.T) providertest.Harness {
				return harness(t, fcmtest.Options{HTTP1: protocol.http1})
			})
		})
	}
}

func TestSuiteBehindProxy(t *testing.T) {
	providertest.TestProxy(t, func(t *testing.T) providertest.Harness { return harness(t, fcmtest.Options{}) })
}

func harness(t *testing.T, options fcmtest.Options) providertest.Harness {
	server, cfg := start(t, options)
	return providertest.Harness{
		Platform: push.FCM,
		StandIn:  server,
		New: func(t *testing.T, o providertest.Options) providers.Sender {
			cfg := cfg
			cfg.Timeout, cfg.DryRun, cfg.Endpoint = o.Timeout, o.DryRun, cmp.Or(o.Endpoint, cfg.Endpoint)
			return newSender(t, cfg)
		},
		At: func(t *testing.T, endpoint string) providers.Sender {
			cfg := cfg
			cfg.Endpoint, cfg.CredentialsFile = endpoint, edit(t, cfg, "token_uri", endpoint+"/token")
			return newSender(t, cfg)
		},
		Token:         func(i int) string { return fmt.Sprintf("token-of-device-%d:APA91b", i) },
		Reasons:       fcm.Reasons(),
		Misconfigured: standin.Answer{Status: http.StatusForbidden, Reason: fcmtest.Bare},
		Rejected:      standin.Answer{Status: http.StatusBadRequest, Reason: "INVALID_ARGUMENT"},
		MostInFlight:  256,
		MostOpen:      8,
		Secrets:       []string{"ya29.", "PRIVATE KEY", "eyJ", providertest.KeyLine(t, cfg.CredentialsFile, `\n`)},
	}
}

// start starts a stand-in for the test, and returns the configuration to reach it.
func start(t *testing.T, options fcmtest.Options) (*fcmtest.Server, fcm.Config) {
	t.Helper()
	server, err := fcmtest.NewServer(options)
	must(t, err)
	providertest.Closing(t, server)
	cfg, err := server.WriteCredentials(t.TempDir())
	must(t, err)
	return server, cfg
}

func newSender(t *testing.T, cfg fcm.Config) *fcm.Sender {
	t.Helper()
	sender, err := fcm.New(t.Context(), cfg)
	must(t, err)
	providertest.Closing(t, sender)
	return sender
}
