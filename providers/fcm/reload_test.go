package fcm_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/fcm"
	"github.com/pushpace/pushpace/providers/fcm/fcmtest"
	"github.com/pushpace/pushpace/providers/providertest"
	"github.com/pushpace/pushpace/providers/standin"
)

func delivered(t *testing.T, sender *fcm.Sender) {
	t.Helper()
	want(t, sender.Send(t.Context(), note(), target("token"), providers.Departure{}), providers.Delivered, providers.OK, providers.NoConcern)
}

func TestCredentialsAreReloaded(t *testing.T) {
	t.Parallel()
	server, cfg := start(t, fcmtest.Options{})
	right := edit(t, cfg, "client_id", "2")
	providertest.Replace(t, cfg.CredentialsFile, edit(t, cfg, "client_email", "x@example.com"))
	sender, err := fcm.NewWatching(t.Context(), cfg, 10*time.Millisecond)
	must(t, err)
	providertest.Closing(t, sender)
	next := providertest.Reloads(t, sender)
	want(t, sender.Send(t.Context(), note(), target("token"), providers.Departure{}), providers.Misconfigured, fcm.CredentialsRefused, providers.ConcernsCredential)
	providertest.Replace(t, cfg.CredentialsFile, right)
	must(t, next())
	delivered(t, sender)
	if _, ends := sender.CredentialExpiry(); ends {
		t.Error("a service account's key expires")
	}

	other, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	cfg.CredentialsFile, right = right, cfg.CredentialsFile // edit reads the valid file
	for name, file := range map[string]string{
		"no key":          edit(t, cfg, "private_key", "junk"),
		"a refused key":   edit(t, cfg, "private_key", pkcs8(t, other)),
		"another project": edit(t, cfg, "project_id", "another"),
	} {
		providertest.Replace(t, right, file)
		err := next()
		if err == nil || !strings.HasPrefix(err.Error(), "credentials_file: ") || strings.Contains(err.Error(), "junk") {
			t.Errorf("%s: %v", name, err)
		}
		server.ExpireTokens()
		want(t, sender.Send(t.Context(), note(), target("token"), providers.Departure{}), providers.Retry, fcm.Unauthenticated, providers.ConcernsCredential)
		delivered(t, sender) // the old key gets a new token
	}
}

// While the token endpoint is down, a new key is used unchecked, and the old key's token stays in
// use.
func TestReloadWithoutTokenEndpointUsesNewKey(t *testing.T) {
	t.Parallel()
	server, cfg := start(t, fcmtest.Options{})
	sender := newSender(t, cfg)
	delivered(t, sender)
	server.TokenScript.RespondAlways(standin.Answer{Status: http.StatusServiceUnavailable})
	must(t, sender.Reload())
	delivered(t, sender)
	server.TokenScript.Recover()
	issued := server.TokensIssued()
	server.ExpireTokens()
	for sends := 1; sender.Send(t.Context(), note(), target("token"), providers.Departure{}).Kind != providers.Delivered; sends++ {
		if sends == 3 {
			t.Fatal("no new access token")
		}
	}
	if server.TokensIssued() == issued {
		t.Error("the former access token is good again")
	}
}

func TestDryRunOnlyValidates(t *testing.T) {
	t.Parallel()
	arrived := make(chan []byte, 1)
	server, cfg := start(t, fcmtest.Options{Seen: func(body []byte) { arrived <- body }})
	cfg.DryRun = true
	sender := newSender(t, cfg)
	o := sender.Send(t.Context(), note(), target("token"), providers.Departure{})
	want(t, o, providers.Delivered, providers.DryRun, providers.NoConcern)
	var body struct {
		ValidateOnly bool `json:"validate_only"`
		Message      json.RawMessage
	}
	if err := json.Unmarshal(<-arrived, &body); err != nil || !body.ValidateOnly || len(body.Message) == 0 {
		t.Errorf("%+v arrived (%v)", body, err)
	}
	if n := server.Ledger().Len(); n != 0 {
		t.Errorf("%d were accepted", n)
	}
	// In a dry run, FCM's refusals have their usual outcomes.
	server.Respond("token", standin.Answer{Status: http.StatusNotFound})
	want(t, sender.Send(t.Context(), note(), target("token"), providers.Departure{}), providers.DeadToken, fcm.Unregistered, providers.ConcernsToken)
}
