package apns_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/apns"
	"github.com/pushpace/pushpace/providers/apns/apnstest"
	"github.com/pushpace/pushpace/providers/providertest"
	"github.com/pushpace/pushpace/providers/standin"
)

func send(t *testing.T, sender *apns.Sender, want providers.Kind, reason providers.Reason) providers.Outcome {
	t.Helper()
	o := sender.Send(t.Context(), notification("n1"), to("00aa"), providers.Departure{})
	if o.Kind != want || o.Reason != reason {
		t.Fatalf("%+v, want %v %s", o, want, reason)
	}
	harmless(t, o, "00aa")
	return o
}

func TestExpiredProviderTokenIsRefreshedOnce(t *testing.T) {
	t.Parallel()
	server := newServer(t, apnstest.Options{})
	sender := newSender(t, credentials(t, server))
	must(t, sender.Age(40*time.Minute))
	send(t, sender, providers.Delivered, providers.OK)
	server.ExpireTokens()
	old := sender.Bearer()
	if o := send(t, sender, providers.Retry, apns.ExpiredProviderToken); o.RetryAfter != 0 || o.Concerns != providers.ConcernsCredential {
		t.Errorf("%+v", o)
	}
	send(t, sender, providers.Delivered, providers.OK)
	fresh := sender.Bearer()
	if fresh == old {
		t.Error("the provider token was not renewed")
	}
	// APNs refuses the new token as well. A third token would come too soon.
	server.ExpireTokens()
	if o := send(t, sender, providers.Misconfigured, apns.ExpiredProviderToken); o.Concerns != providers.ConcernsCredential {
		t.Errorf("%+v", o)
	}
	if sender.Bearer() != fresh {
		t.Error("a provider token was renewed within 20 minutes")
	}
	if got := server.Count().Received; got != 4 {
		t.Errorf("%d requests, want 4", got)
	}
}

// One refusal does not stop the key: the route decides by the answers for further tokens.
func TestTooManyUpdatesAnswerKeepsProviderToken(t *testing.T) {
	t.Parallel()
	server := newServer(t, apnstest.Options{})
	config := credentials(t, server)
	sender, other := newSender(t, config), newSender(t, config)
	send(t, sender, providers.Delivered, providers.OK)
	bearer := sender.Bearer()
	server.RespondAlways(standin.Answer{Status: http.StatusTooManyRequests, Reason: string(apns.TooManyProviderTokenUpdates)})
	o := send(t, sender, providers.Retry, apns.TooManyProviderTokenUpdates)
	if o.RetryAfter != 20*time.Minute || o.Concerns != providers.ConcernsCredential || o.Ambiguous {
		t.Errorf("%+v", o)
	}
	server.Recover()
	send(t, sender, providers.Delivered, providers.OK)
	send(t, other, providers.Delivered, providers.OK)
	if sender.Bearer() != bearer || other.Bearer() != bearer {
		t.Error("the provider token was renewed")
	}
}

func watching(t *testing.T, config apns.Config) *apns.Sender {
	t.Helper()
	sender, err := apns.NewWatching(config, 10*time.Millisecond)
	must(t, err)
	t.Cleanup(func() { _ = sender.Close() })
	return sender
}

func TestKeyIsReloaded(t *testing.T) {
	t.Parallel()
	server := newServer(t, apnstest.Options{})
	config, right := credentials(t, server), credentials(t, server).KeyFile
	providertest.Replace(t, config.KeyFile, credentials(t, newServer(t, apnstest.Options{})).KeyFile)
	sender := watching(t, config)
	next := providertest.Reloads(t, sender)
	send(t, sender, providers.Misconfigured, apns.InvalidProviderToken)

	providertest.Replace(t, config.KeyFile, right)
	must(t, next())
	send(t, sender, providers.Delivered, providers.OK)

	// An invalid key file changes nothing.
	junk := filepath.Join(t.TempDir(), "junk")
	must(t, os.WriteFile(junk, []byte("secret-of-a-file"), 0o600))
	providertest.Replace(t, config.KeyFile, junk)
	err := next()
	if err == nil {
		t.Fatal("junk is taken for a key")
	}
	harmless(t, providers.Outcome{Err: err}, "secret-of-a-file")
	send(t, sender, providers.Delivered, providers.OK)
	must(t, os.Remove(config.KeyFile))
	if err := next(); err == nil {
		t.Fatal("a missing file is no error")
	}
	send(t, sender, providers.Delivered, providers.OK)
	if _, ends := sender.CredentialExpiry(); ends {
		t.Error("a key expires")
	}
}

func TestCertificateIsReloaded(t *testing.T) {
	t.Parallel()
	server := newServer(t, apnstest.Options{})
	config, err := server.WriteCertificate(t.TempDir())
	must(t, err)
	next, err := server.WriteCertificate(t.TempDir())
	must(t, err)
	foreign, err := newServer(t, apnstest.Options{}).WriteCertificate(t.TempDir())
	must(t, err)
	sender := newSender(t, config)
	reload := func() {
		t.Helper()
		must(t, sender.Reload())
	}
	expiry, ends := sender.CredentialExpiry()
	if left := time.Until(expiry); !ends || left < 360*24*time.Hour || left > 367*24*time.Hour {
		t.Errorf("ends %v on %v", ends, expiry)
	}
	send(t, sender, providers.Delivered, providers.OK)
	reload() // the certificate is the same
	send(t, sender, providers.Delivered, providers.OK)
	if n := server.Count().Connections; n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
	providertest.Replace(t, config.CertificateFile, next.CertificateFile)
	reload()
	send(t, sender, providers.Delivered, providers.OK)
	if n := server.Count().Connections; n != 2 {
		t.Errorf("%d connections, want a new one for the new certificate", n)
	}
	// New connections present the new certificate.
	providertest.Replace(t, config.CertificateFile, foreign.CertificateFile)
	reload()
	send(t, sender, providers.Misconfigured, providers.TLSRefused)
}

// Pushes in flight end over the old connection when the credential changes.
func TestReloadKeepsPushesInFlight(t *testing.T) {
	t.Parallel()
	server := newServer(t, apnstest.Options{Latency: standin.Latency{Typical: 5 * time.Millisecond}})
	config, err := server.WriteCertificate(t.TempDir())
	must(t, err)
	sender := newSender(t, config)
	changing := make(chan struct{})
	go func() {
		defer close(changing)
		for range 5 {
			other, err := server.WriteCertificate(t.TempDir())
			if err == nil {
				providertest.Replace(t, config.CertificateFile, other.CertificateFile)
				err = sender.Reload()
			}
			if err != nil {
				t.Error(err)
			}
		}
	}()
	const pushes, rounds = 64, 5
	for range rounds {
		for _, o := range burst(t, sender, pushes, providers.Departure{}) {
			providertest.Want(t, o, providers.Delivered, providers.OK, providers.NoConcern)
		}
	}
	<-changing
	if n := server.Ledger().Len(); n != pushes*rounds {
		t.Errorf("%d accepted, want %d", n, pushes*rounds)
	}
}
