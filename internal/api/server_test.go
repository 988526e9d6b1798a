package api

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/config"
)

// listen serves the rig's API on a free port.
func (r *rig) listen(change func(*config.HTTP)) *Server {
	r.t.Helper()
	o := r.options.HTTP
	o.Listen = "127.0.0.1:0"
	if change != nil {
		change(&o)
	}
	listener, err := Listen(o)
	must(r.t, err)
	s, err := Serve(listener, o, r.api, r.options.Log)
	must(r.t, err)
	r.t.Cleanup(func() { _ = s.Shutdown(r.t.Context()) })
	return s
}

// raw sends bytes over a new connection, and returns the answer.
func raw(t *testing.T, s *Server, text string) *http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	must(t, second(io.WriteString(conn, text)))
	_ = conn.SetReadDeadline(time.Now().Add(eventually.Patience))
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

const head = "POST /v1/notifications HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + producerToken + "\r\nContent-Type: application/json\r\n"

// A slow body is cut off with an answer.
func TestSlowBodyIsCutOffWithAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.listen(func(o *config.HTTP) { o.ReadTimeout = time.Second })
	if answer := raw(t, s, head+"Content-Length: 500\r\n\r\n{"); answer.StatusCode != http.StatusRequestTimeout || !answer.Close {
		t.Errorf("%+v", answer)
	}
	r.oneLine(http.StatusRequestTimeout, "/v1/notifications", "shop")
	if counts := r.counts(); counts.Accepted != 0 {
		t.Errorf("%+v", counts)
	}
}

// A header that is too large is refused, and so is a body, before it is sent, if its announced
// length is too large.
func TestHugeRequestIsRefused(t *testing.T) {
	t.Parallel()
	s := newRig(t).listen(nil)
	for text, want := range map[string]int{"X: " + strings.Repeat("x", 20<<10): http.StatusRequestHeaderFieldsTooLarge, "Content-Length: 50000000": http.StatusRequestEntityTooLarge} {
		if answer := raw(t, s, head+text+"\r\n\r\n"); answer.StatusCode != want || !answer.Close {
			t.Errorf("%+v, want %d", answer, want)
		}
	}
}

// selfSigned writes a certificate for localhost and its key.
func selfSigned(t *testing.T, files config.ServerTLS, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	for file, block := range map[string]*pem.Block{files.CertFile: {Type: "CERTIFICATE", Bytes: der}, files.KeyFile: {Type: "PRIVATE KEY", Bytes: secret}} {
		must(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	}
}

// Over TLS a changed certificate is used for new connections, unless it is
// invalid.
func TestChangedCertificateIsUsed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dir := t.TempDir()
	files := config.ServerTLS{CertFile: filepath.Join(dir, "api.crt"), KeyFile: filepath.Join(dir, "api.key")}
	selfSigned(t, files, 1)
	s := r.listen(func(o *config.HTTP) { o.TLS = files })
	if !strings.HasPrefix(s.URL(), "https://") {
		t.Errorf("URL %s", s.URL())
	}
	serial := func(want int64) {
		t.Helper()
		conn, err := tls.Dial("tcp", s.Addr(), &tls.Config{InsecureSkipVerify: true, ServerName: "localhost"})
		must(t, err)
		defer conn.Close()
		if got := conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(); got != want {
			t.Errorf("serial %d", got)
		}
	}
	serial(1)
	if _, err := tls.Dial("tcp", s.Addr(), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	selfSigned(t, files, 2)
	must(t, s.certificate.read())
	serial(2)
	must(t, os.WriteFile(files.KeyFile, []byte("no key"), 0o600))
	if err := s.certificate.read(); err == nil {
		t.Error("a key that is none is read")
	}
	serial(2)
}

func TestServeRefuses(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	log := slog.New(slog.DiscardHandler)
	for want, o := range map[string]config.HTTP{
		"http.listen: ": {Listen: config.Listen(taken.Addr().String())},
		"http.tls: ":    {Listen: "127.0.0.1:0", TLS: config.ServerTLS{CertFile: "none", KeyFile: "none"}},
	} {
		listener, err := Listen(o)
		if err == nil {
			_, err = Serve(listener, o, http.NotFoundHandler(), log)
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
