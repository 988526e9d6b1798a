package providertest

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/textfile"
	"github.com/pushpace/pushpace/providers"
)

// Want checks an outcome.
func Want(t testing.TB, o providers.Outcome, kind providers.Kind, reason providers.Reason, concerns providers.Concern) {
	t.Helper()
	if o.Kind != kind || o.Reason != reason || o.Concerns != concerns {
		t.Fatalf("outcome %v %s, concerns %d (%v); want %v %s, concerns %d", o.Kind, o.Reason, o.Concerns, o.Err, kind, reason, concerns)
	}
}

// Closing closes c at the end of the test, which then fails on an error.
func Closing(t testing.TB, c io.Closer) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Client returns an HTTP client that trusts the authority ca, in PEM, and follows no redirect.
func Client(t testing.TB, ca []byte) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: transport, Timeout: stall, CheckRedirect: stay}
}

// KeyLine returns the second line of a private key's file. newline ends its lines.
func KeyLine(t testing.TB, file, newline string) string {
	t.Helper()
	text, err := textfile.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), newline)
	if len(lines) < 3 {
		t.Fatalf("%s holds no key", file)
	}
	return lines[1]
}

// Replace replaces file atomically by a link to the file by.
func Replace(t testing.TB, file, by string) {
	t.Helper()
	if err := os.Link(by, file+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// Reloads returns a function that waits for the sender's next reload and returns its error.
func Reloads(t testing.TB, sender interface{ OnReload(func(error)) }) func() error {
	reloaded := make(chan error, 10)
	sender.OnReload(func(err error) { reloaded <- err })
	return func() error {
		t.Helper()
		select {
		case err := <-reloaded:
			return err
		case <-time.After(eventually.Patience):
			t.Fatal("nothing was reloaded")
			return nil
		}
	}
}
