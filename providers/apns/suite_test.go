package apns_test

import (
	"cmp"
	"fmt"
	"net/http"
	"testing"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/apns/apnstest"
	"github.com/pushpace/pushpace/providers/providertest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

func TestSuite(t *testing.T) { providertest.Test(t, harness) }

func TestSuiteBehindProxy(t *testing.T) { providertest.TestProxy(t, harness) }

func harness(t *testing.T) providertest.Harness {
	server := newServer(t, apnstest.Options{})
	good := credentials(t, server)
	return providertest.Harness{
		Platform: push.APNs,
		StandIn:  server,
		New: func(t *testing.T, o providertest.Options) providers.Sender {
			config := good
			config.Timeout, config.DryRun, config.Endpoint = o.Timeout, o.DryRun, cmp.Or(o.Endpoint, good.Endpoint)
			return newSender(t, config)
		},
		Token:         func(i int) string { return fmt.Sprintf("00fc13adff785122%048x", i) },
		Reasons:       apns.Reasons(),
		Misconfigured: standin.Answer{Status: http.StatusForbidden, Reason: string(apns.InvalidProviderToken)},
		Rejected:      standin.Answer{Status: http.StatusRequestEntityTooLarge},
		MostInFlight:  300,
		MostOpen:      1,
		Secrets:       []string{"PRIVATE KEY", "eyJ", providertest.KeyLine(t, good.KeyFile, "\n")},
	}
}
