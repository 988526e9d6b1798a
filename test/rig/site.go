package rig

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/providers/standin"
)

// A Site is a Redis and a folder with the shipped configuration.
type Site struct {
	Setup
	Client *redis.Client
}

// NewSite returns a Site on a database of its own.
func NewSite(t *testing.T) *Site {
	t.Helper()
	s := SiteOn(t, redistest.Shared(t))
	s.Client = redistest.Own(t)
	s.Env = append(s.Env, "PUSHPACE_REDIS__DB="+strconv.Itoa(s.Client.Options().DB))
	return s
}

// SiteOn returns a Site on a server, or on all masters of a Cluster.
func SiteOn(t *testing.T, servers ...*redistest.Server) *Site {
	t.Helper()
	addresses := make([]string, len(servers))
	for i, server := range servers {
		addresses[i] = server.Addr()
	}
	s := &Site{Client: servers[0].Client(t)}
	s.Dir = Write(t, "config.yaml", string(pushpace.ConfigYAML))
	s.Env = []string{"PUSHPACE_REDIS__ADDRESS=" + strings.Join(addresses, ",")}
	return s
}

// Simulate starts the stand-ins and points the site at them.
func (s *Site) Simulate(t *testing.T, args ...string) {
	t.Helper()
	p := Start(t, s.Setup, append([]string{"simulate", "--ledger", "ledger.ndjson"}, args...)...)
	p.Until(t, "the settings", func() bool { return strings.HasSuffix(p.Stdout.String(), "\n") })
	s.Env = append(s.Env, strings.Fields(p.Stdout.String())...)
}

// StandIns starts stand-ins inside the test and points the site at them.
func (s *Site) StandIns(t *testing.T, latency time.Duration) StandIns {
	t.Helper()
	all, to := startStandIns(t, latency, nil)
	s.Env = append(s.Env, "PUSHPACE_APPS__DEMO__SIMULATED=false")
	for key, value := range map[string]string{
		"APNS__TOPIC": to.apns.Topic, "APNS__KEY_FILE": to.apns.KeyFile, "APNS__KEY_ID": to.apns.KeyID, "APNS__TEAM_ID": to.apns.TeamID,
		"APNS__ENDPOINT": to.apns.Endpoint, "APNS__ROOT_CA_FILE": to.apns.RootCAFile,
		"FCM__CREDENTIALS_FILE": to.fcm.CredentialsFile, "FCM__ENDPOINT": to.fcm.Endpoint, "FCM__ROOT_CA_FILE": to.fcm.RootCAFile,
	} {
		s.Env = append(s.Env, "PUSHPACE_APPS__DEMO__"+key+"="+value)
	}
	return all
}

// Send runs send with that input, which pushpace accepts.
func (s Setup) Send(t *testing.T, input string) {
	t.Helper()
	s.Stdin = strings.NewReader(input)
	s.Run(t, Done, "send", "--file", "-")
}

func (s *Site) Ledger(t *testing.T) []standin.Entry {
	t.Helper()
	f, err := os.Open(filepath.Join(s.Dir, "ledger.ndjson"))
	Must(t, err)
	defer f.Close()
	var entries []standin.Entry
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		var e standin.Entry
		if json.Unmarshal(scanner.Bytes(), &e) == nil { // the last line may be incomplete
			entries = append(entries, e)
		}
	}
	return entries
}

func Notification(id, user, category, platform, token string) string {
	return fmt.Sprintf(`{"id":%q,"app":"demo","user":%q,"category":%q,"targets":[{"platform":%q,"token":%q}],"title":"t"}`+"\n",
		id, user, category, platform, token)
}

// Stop ends the programs, and expects that each exits with Done.
func (Setup) Stop(t *testing.T, programs ...*Program) {
	t.Helper()
	for _, p := range programs {
		p.Terminate(t)
		if got := p.Wait(t); got != Done {
			t.Errorf("%s: exit status %d: %s", p.Cmd.Args[1], got, &p.Stderr)
		}
	}
}

// Audited expects that the audit finds nothing missing.
func (s Setup) Audited(t *testing.T) {
	t.Helper()
	s.Run(t, Done, "audit", "--json")
}

// Configure writes the site's configuration: the shipped one, in which each pair of texts is the old
// and the new text.
func (s *Site) Configure(t *testing.T, pairs ...string) {
	t.Helper()
	text := string(pushpace.ConfigYAML)
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("the shipped configuration has no %q", pairs[i])
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	// by rename, as editors do, so that no reader finds an incomplete file
	Must(t, os.WriteFile(filepath.Join(s.Dir, "next"), []byte(text), 0o600))
	Must(t, os.Rename(filepath.Join(s.Dir, "next"), filepath.Join(s.Dir, "config.yaml")))
}

const ShippedLimits = "default: {min_gap: 1s, rates: [10/1m, 100/24h]}"

// ServeAPI starts serve with these arguments and the API, and returns the API's URL.
func (s *Site) ServeAPI(t *testing.T, args ...string) (*Program, string) {
	t.Helper()
	with := s.Setup
	with.Env = append([]string{"PUSHPACE_HTTP__LISTEN=127.0.0.1:0"}, with.Env...)
	p := Start(t, with, append([]string{"serve"}, args...)...)
	p.Until(t, "serving", func() bool { return strings.Contains(p.Stderr.String(), "msg=serving") })
	m := regexp.MustCompile(`msg=api url=(\S+)`).FindStringSubmatch(p.Stderr.String())
	if m == nil {
		return p, ""
	}
	return p, m[1]
}

// Ask makes a request, and returns the status and the body.
func Ask(t *testing.T, token, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	Must(t, err)
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := asking.Do(req)
	Must(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	Must(t, err)
	return answer.StatusCode, string(text)
}

// Run runs the program to its end, expects the exit status want, and returns the output.
func (s Setup) Run(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	got := Run(t, s, args...)
	if got.Status != want {
		t.Errorf("%s: exit status %d, want %d: %s%s", strings.Join(args, " "), got.Status, want, got.Stdout, got.Stderr)
	}
	return got.Stdout, got.Stderr
}

// WriteCertificate writes a certificate that expires at the time ends, with its key.
func WriteCertificate(t *testing.T, file string, ends time.Time) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: ends.Add(-24 * time.Hour), NotAfter: ends}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	Must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	Must(t, err)
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
	Must(t, os.WriteFile(file, text, 0o600))
}

// asking keeps no idle connections, as these would outlive a test.
var asking = http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// Fetch gets the URL, and returns the status and the body.
func Fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	return Ask(t, "", http.MethodGet, url, "")
}
