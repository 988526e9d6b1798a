package apns_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/apns/apnstest"
	"github.com/pushpace/pushpace/providers/providertest"
	"github.com/pushpace/pushpace/providers/standin"
	"github.com/pushpace/pushpace/push"
)

func TestSuite(t *testing.T) { providertest.Test(t, harness) }

func TestProxy(t *testing.T) { providertest.TestProxy(t, harness) }

func harness(t *testing.T) providertest.Harness {
	server, err := apnstest.NewServer(apnstest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	good, err := server.WriteCredentials(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sender := func(t *testing.T, config apns.Config) providers.Sender {
		s, err := apns.New(config)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	return providertest.Harness{
		Platform: push.APNs,
		StandIn:  server,
		New: func(t *testing.T, timeout time.Duration) providers.Sender {
			config := good
			config.Timeout = timeout
			return sender(t, config)
		},
		Unreachable: func(t *testing.T) providers.Sender {
			config := good
			config.Endpoint = "https://127.0.0.1:1"
			return sender(t, config)
		},
		At: func(t *testing.T, endpoint string) providers.Sender {
			config := good
			config.Endpoint = endpoint
			return sender(t, config)
		},
		DryRun: func(t *testing.T) providers.Sender {
			config := good
			config.DryRun = true
			return sender(t, config)
		},
		Token:         func(i int) string { return fmt.Sprintf("00fc13adff785122%048x", i) },
		Reasons:       apns.Reasons(),
		Misconfigured: standin.Answer{Status: http.StatusForbidden, Reason: string(apns.InvalidProviderToken)},
		Rejected:      standin.Answer{Status: http.StatusRequestEntityTooLarge},
		Secrets:       []string{"PRIVATE KEY", "eyJ", keyLine(t, good.KeyFile)},
	}
}

// keyLine returns a line of a private key's file.
func keyLine(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) < 3 {
		t.Fatal("the file holds no key")
	}
	return lines[1]
}
